/** Planned providers: shown in the list, but not available yet. */
import type { AnnouncedProvider } from './provider.ts'

export const announced: readonly AnnouncedProvider[] = [
  {
    slug: 'github-dependabot',
    name: 'GitHub Dependabot',
    website: 'https://github.com/dependabot',
    docs: 'https://docs.github.com/rest/dependabot/secrets',
    glyph: { text: 'D', colour: '#0b5cc4' },
  },
  {
    slug: 'gitea-actions',
    name: 'Gitea and Forgejo Actions',
    website: 'https://about.gitea.com',
    docs: 'https://docs.gitea.com/usage/actions/secrets',
    glyph: { text: 'Gi', colour: '#3d6b1f' },
  },
  {
    slug: 'coolify',
    name: 'Coolify',
    website: 'https://coolify.io',
    docs: 'https://coolify.io/docs/api-reference/api/',
    glyph: { text: 'Co', colour: '#5c2fb3' },
  },
  {
    slug: 'nomad-variables',
    name: 'HashiCorp Nomad variables',
    website: 'https://www.nomadproject.io',
    docs: 'https://developer.hashicorp.com/nomad/api-docs/variables/variables',
    glyph: { text: 'N', colour: '#007a5a' },
  },
  {
    slug: 'supabase',
    name: 'Supabase',
    website: 'https://supabase.com',
    docs: 'https://supabase.com/docs/reference/api/introduction',
    glyph: { text: 'S', colour: '#17724c' },
  },
  {
    slug: 'azure-app-configuration',
    name: 'Azure App Configuration',
    website: 'https://azure.microsoft.com/products/app-configuration',
    docs: 'https://learn.microsoft.com/azure/azure-app-configuration/rest-api',
    glyph: { text: 'Ac', colour: '#00558f' },
  },
  {
    slug: 'travis-ci',
    name: 'Travis CI',
    website: 'https://www.travis-ci.com',
    docs: 'https://developer.travis-ci.com/resource/env_vars',
    glyph: { text: 'T', colour: '#8a2f3c' },
  },
  {
    slug: 'teamcity',
    name: 'TeamCity',
    website: 'https://www.jetbrains.com/teamcity/',
    docs: 'https://www.jetbrains.com/help/teamcity/rest/teamcity-rest-api-documentation.html',
    glyph: { text: 'TC', colour: '#14537a' },
  },
  {
    slug: 'dotenv-ssh',
    name: 'A .env file over SSH',
    website: 'https://www.openssh.com',
    docs: 'https://www.openssh.com/manual.html',
    glyph: { text: '.e', colour: '#4a4a4a' },
  },
]
