/** Builds the dashboard (React) and the plain pages (login, share, invite, device), each from its own html file. */
import { join } from 'node:path'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

/**
 * Fewer, larger files: a page would otherwise ask for a hundred small ones. The client library is apart from the others
 * because the plain pages load it without React.
 */
const groups = [
  { name: 'client', test: /\/sdk\/src\/(?!share-envelope)/, priority: 3 },
  { name: 'vendor', test: /\/node_modules\/(react|react-dom|scheduler|@tanstack\/(?!.*virtual))/, priority: 2 },
  { name: 'parts', test: /\/dashboard\/src\/(parts|api)\/(?!opened-)/, priority: 1, minShareCount: 4 },
]

const page = (name: string) => join(import.meta.dirname, `${name}.html`)

const plainPages = ['login', 'share', 'invite', 'device', 'reset']

/** The development server finds the plain pages by the first word of their path, as the service does. */
const findPlainPage: Plugin = {
  name: 'find-plain-page',
  configureServer({ middlewares }) {
    middlewares.use((request, _response, next) => {
      const [, word = ''] = (request.url ?? '').split(/[/?]/)
      if (plainPages.includes(word)) request.url = `/${word}.html`
      next()
    })
  },
}

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss(), findPlainPage],
  server: { proxy: { '/v1': 'http://localhost:8080', '/logo': 'http://localhost:8080' } },
  build: {
    // Inlined files would be data: addresses, which the content security policy forbids.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'esnext',
    rolldownOptions: {
      input: ['index', ...plainPages].map(page),
      output: { codeSplitting: { groups } },
    },
  },
})
