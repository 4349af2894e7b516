/** All routes. Pages are loaded when they are first visited. */
import { ApiError } from '@coffer/sdk'
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router'
import { queryClient } from './api/query-client.ts'
import { cellsQuery } from './api/secret.ts'
import { authStateQuery, meQuery } from './api/session.ts'
import { environmentsQuery, projectQuery, projectsQuery, workspaceAddress, workspacesQuery } from './api/workspace.ts'
import { applyTheme } from './look/theme.ts'
import { PageFailed, PageMissing } from './pages/failed.tsx'
import { type GridSearch, gridFields } from './pages/grid/filter/search.ts'
import { Skeleton } from './parts/page.tsx'

const rootRoute = createRootRoute({ component: Outlet, notFoundComponent: PageMissing, errorComponent: PageFailed })

const setupRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/setup',
  beforeLoad: async () => {
    const { needsSetup } = await queryClient.ensureQueryData(authStateQuery)
    if (!needsSetup) throw redirect({ to: '/' })
  },
  component: lazyRouteComponent(() => import('./pages/setup/setup.tsx'), 'Setup'),
})

/**
 * The login page needs nothing of the dashboard. A fragment may hold the token of a mailed link: it stays one, and is
 * never sent to the service.
 */
function leaveToLogin(returnTo: string): Promise<never> {
  const search = returnTo === '/' ? '' : `?${new URLSearchParams({ returnTo })}`
  location.replace(`/login${search}${location.hash}`)
  return new Promise(() => undefined)
}

const signedInRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: 'signed-in',
  beforeLoad: async ({ location, preload }) => {
    try {
      const [me] = await Promise.all([
        queryClient.ensureQueryData(meQuery),
        queryClient.ensureQueryData(workspacesQuery),
      ])
      applyTheme(me.preferences.theme)
    } catch (error) {
      if (preload || !(error instanceof ApiError && error.status === 401)) throw error
      return leaveToLogin(location.pathname + location.searchStr)
    }
  },
  component: lazyRouteComponent(() => import('./pages/shell/signed-in.tsx'), 'SignedIn'),
})

const personRoute = createRoute({
  getParentRoute: () => signedInRoute,
  id: 'person',
  component: lazyRouteComponent(() => import('./pages/shell/person-frame.tsx'), 'PersonFrame'),
})

const homeRoute = createRoute({
  getParentRoute: () => personRoute,
  path: '/',
  validateSearch: ({ all }): { all?: true } => (all === undefined ? {} : { all: true }),
  beforeLoad: async ({ search }) => {
    if (search.all) return
    const [me, workspaces] = await Promise.all([
      queryClient.ensureQueryData(meQuery),
      queryClient.ensureQueryData(workspacesQuery),
    ])
    const { defaultWorkspace } = me.preferences
    const preferred = workspaces.find(({ id }) => id === defaultWorkspace) ?? workspaces[0]
    if (preferred && (preferred.id === defaultWorkspace || workspaces.length === 1)) {
      throw redirect({ to: '/$ws', params: { ws: workspaceAddress(preferred) }, replace: true })
    }
  },
  component: lazyRouteComponent(() => import('./pages/workspace/workspaces.tsx'), 'Workspaces'),
})

const meRoute = createRoute({
  getParentRoute: () => personRoute,
  path: '/me',
  component: lazyRouteComponent(() => import('./pages/me/me.tsx'), 'MePage'),
})

const workspaceRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/$ws',
  loader: ({ params: { ws } }) => void queryClient.prefetchQuery(projectsQuery(ws)),
  component: lazyRouteComponent(() => import('./pages/shell/workspace.tsx'), 'WorkspaceFrame'),
})

const projectsRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/',
  validateSearch: (search): { q?: string } => textFields(search, ['q'] as const),
  component: lazyRouteComponent(() => import('./pages/workspace/projects.tsx'), 'Projects'),
})

const membersRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/-/access/members',
  component: lazyRouteComponent(() => import('./pages/access/members.tsx'), 'Members'),
})

const tokensRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/-/access/tokens',
  component: lazyRouteComponent(() => import('./pages/access/tokens.tsx'), 'Tokens'),
})

const serviceAccountsRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/-/access/service-accounts',
  component: lazyRouteComponent(() => import('./pages/access/service-accounts.tsx'), 'ServiceAccounts'),
})

const identitiesRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/-/access/identities',
  component: lazyRouteComponent(() => import('./pages/access/identities.tsx'), 'Identities'),
})

const whoRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/-/access/who',
  validateSearch: (search): { project?: string } => textFields(search, ['project'] as const),
  component: lazyRouteComponent(() => import('./pages/access/who.tsx'), 'WhoCan'),
})

const auditFilters = ['actor', 'action', 'entity', 'project', 'environment', 'from', 'to', 'q'] as const
type AuditSearch = Partial<Record<(typeof auditFilters)[number], string>>

const auditRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/-/audit',
  validateSearch: (search): AuditSearch => textFields(search, auditFilters),
  component: lazyRouteComponent(() => import('./pages/audit/audit.tsx'), 'Audit'),
})

const workspaceSettingsRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/-/settings',
  component: lazyRouteComponent(() => import('./pages/workspace/settings.tsx'), 'WorkspaceSettings'),
})

const projectRoute = createRoute({
  getParentRoute: () => workspaceRoute,
  path: '/$prj',
  loader: ({ params: { ws, prj } }) => void queryClient.prefetchQuery(projectQuery(ws, prj)),
  component: lazyRouteComponent(() => import('./pages/shell/project.tsx'), 'ProjectFrame'),
})

const gridRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/',
  validateSearch: (search): GridSearch => textFields(search, gridFields),
  // Reading the cells is recorded: pointing at a link must not do that, nor every change of a filter.
  loader: ({ params: { ws, prj }, cause }) => {
    void queryClient.prefetchQuery(environmentsQuery(ws, prj))
    if (cause === 'enter') void queryClient.prefetchQuery(cellsQuery(ws, prj))
  },
  staleTime: Number.POSITIVE_INFINITY,
  component: lazyRouteComponent(() => import('./pages/grid/grid-page.tsx'), 'GridPage'),
})

const historyRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/history',
  validateSearch: (search): { environment?: string } => textFields(search, ['environment'] as const),
  component: lazyRouteComponent(() => import('./pages/history/history.tsx'), 'History'),
})

const compareRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/compare',
  validateSearch: (search): { from?: string; to?: string } => textFields(search, ['from', 'to'] as const),
  component: lazyRouteComponent(() => import('./pages/compare/compare.tsx'), 'Compare'),
})

const syncsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/syncs',
  component: lazyRouteComponent(() => import('./pages/syncs/syncs.tsx'), 'Syncs'),
})

const newSyncRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/syncs/new/$slug/$step',
  validateSearch: (search): { id?: string } => textFields(search, ['id'] as const),
  component: lazyRouteComponent(() => import('./pages/syncs/wizard.tsx'), 'SyncWizard'),
})

const syncRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/syncs/$id',
  component: lazyRouteComponent(() => import('./pages/syncs/sync.tsx'), 'SyncPage'),
})

const sharesRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/shares',
  component: lazyRouteComponent(() => import('./pages/shares/shares.tsx'), 'Shares'),
})

const trashRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/trash',
  component: lazyRouteComponent(() => import('./pages/trash/trash.tsx'), 'Trash'),
})

const projectSettingsRoute = createRoute({
  getParentRoute: () => projectRoute,
  path: '/settings',
  component: lazyRouteComponent(() => import('./pages/project/settings.tsx'), 'ProjectSettings'),
})

/** Keeps the named fields that are texts: an address may hold anything. Numbers are texts that look like one. */
function textFields<Name extends string>(
  search: Record<string, unknown>,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const fields: Partial<Record<Name, string>> = {}
  for (const name of names) {
    const value = search[name]
    if (typeof value === 'string' && value !== '') fields[name] = value
    else if (typeof value === 'number') fields[name] = String(value)
  }
  return fields
}

const routeTree = rootRoute.addChildren([
  setupRoute,
  signedInRoute.addChildren([
    personRoute.addChildren([homeRoute, meRoute]),
    workspaceRoute.addChildren([
      projectsRoute,
      membersRoute,
      serviceAccountsRoute,
      tokensRoute,
      identitiesRoute,
      whoRoute,
      auditRoute,
      workspaceSettingsRoute,
      projectRoute.addChildren([
        gridRoute,
        historyRoute,
        compareRoute,
        syncsRoute,
        newSyncRoute,
        syncRoute,
        sharesRoute,
        trashRoute,
        projectSettingsRoute,
      ]),
    ]),
  ]),
])

export const router = createRouter({ routeTree, defaultPendingComponent: Skeleton, defaultPreload: 'intent' })

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
