import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from './api/query-client.ts'
import { applyTheme, storedTheme } from './look/theme.ts'
import './look/app.css'
import { Toasts } from './parts/toast.tsx'
import { router } from './router.tsx'

applyTheme(storedTheme())
const root = document.getElementById('app')
if (!root) throw new Error('The page has no element for the dashboard.')
createRoot(root).render(
  <StrictMode>
    {/* The content security policy allows no style elements; our own style sheets have what they would hold. */}
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
        <Toasts />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
)
