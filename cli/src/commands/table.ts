/** Every command, in the order of the help. A command's module is loaded when it is called. */
import type { CommandEntry } from '../command.ts'
import { run } from './run.ts'

export const commandTable: readonly CommandEntry[] = [
  { name: 'login', about: 'Sign in to a service', load: async () => (await import('./login.ts')).login },
  { name: 'logout', about: 'End the session', load: async () => (await import('./logout.ts')).logout },
  { name: 'whoami', about: 'Show who is signed in', load: async () => (await import('./whoami.ts')).whoami },
  {
    name: 'init',
    aliases: ['setup'],
    about: 'Choose the project and environment of this folder',
    load: async () => (await import('./init.ts')).init,
  },
  {
    name: 'trust',
    about: 'Confirm that a service may get your credentials',
    load: async () => (await import('./trust.ts')).trust,
  },
  {
    name: 'status',
    about: 'Show where commands work here, and as whom',
    load: async () => (await import('./status.ts')).status,
  },
  {
    name: 'run',
    about: 'Run a command with the secrets as environment variables',
    // Starts programs, so its own start counts most: it is in the file that is loaded first.
    load: async () => run,
  },
  {
    name: 'secrets',
    about: 'List, read, write and edit secrets',
    commands: [
      {
        name: 'list',
        aliases: ['ls'],
        about: 'List secrets, without their values unless asked for',
        load: async () => (await import('./secrets/list.ts')).list,
      },
      { name: 'get', about: 'Print values', load: async () => (await import('./secrets/get.ts')).get },
      { name: 'set', about: 'Write values', load: async () => (await import('./secrets/set.ts')).set },
      { name: 'delete', about: 'Delete values', load: async () => (await import('./secrets/delete.ts')).remove },
      { name: 'edit', about: 'Edit values in your editor', load: async () => (await import('./secrets/edit.ts')).edit },
    ],
  },
  {
    name: 'import',
    about: 'Import a file, or the secrets of another tool',
    load: async () => (await import('./import.ts')).importCommand,
  },
  {
    name: 'export',
    about: 'Print all secrets of an environment in a format of your choice',
    load: async () => (await import('./export.ts')).exportCommand,
  },
  {
    name: 'diff',
    about: 'Compare environments, revisions or points in time',
    load: async () => (await import('./diff.ts')).diff,
  },
  {
    name: 'promote',
    about: 'Copy secrets from one environment to another',
    load: async () => (await import('./promote.ts')).promote,
  },
  {
    name: 'history',
    about: 'Show what was changed, when and by whom',
    load: async () => (await import('./history.ts')).history,
  },
  {
    name: 'restore',
    about: 'Bring back an earlier value or the state of an environment',
    load: async () => (await import('./restore.ts')).restore,
  },
  {
    name: 'share',
    about: 'Share secrets by a link, or open one',
    load: async () => (await import('./share.ts')).share,
  },
  { name: 'open', about: 'Open the page of the project', load: async () => (await import('./open.ts')).open },
  {
    name: 'token',
    about: 'Create and manage API tokens',
    commands: [
      { name: 'create', about: 'Create a token', load: async () => (await import('./token/create.ts')).create },
      { name: 'list', aliases: ['ls'], about: 'List tokens', load: async () => (await import('./token/list.ts')).list },
      { name: 'rotate', about: 'Replace a token', load: async () => (await import('./token/rotate.ts')).rotate },
      { name: 'revoke', about: 'End a token', load: async () => (await import('./token/revoke.ts')).revoke },
      {
        name: 'transfer',
        about: 'Give a token to a service account',
        load: async () => (await import('./token/transfer.ts')).transfer,
      },
    ],
  },
  {
    name: 'service-account',
    about: 'Create and manage accounts of machines',
    commands: [
      {
        name: 'list',
        aliases: ['ls'],
        about: 'List service accounts',
        load: async () => (await import('./service-account/list.ts')).list,
      },
      {
        name: 'create',
        about: 'Create a service account',
        load: async () => (await import('./service-account/create.ts')).create,
      },
      {
        name: 'token',
        about: 'Create a token of a service account',
        load: async () => (await import('./service-account/token.ts')).token,
      },
      {
        name: 'delete',
        about: 'Delete a service account and its tokens',
        load: async () => (await import('./service-account/delete.ts')).remove,
      },
    ],
  },
  {
    name: 'members',
    about: 'List members and change their grants',
    commands: [
      {
        name: 'list',
        aliases: ['ls'],
        about: 'List members',
        load: async () => (await import('./members/list.ts')).list,
      },
      { name: 'set', about: 'Change the grants of a member', load: async () => (await import('./members/set.ts')).set },
    ],
  },
  {
    name: 'access',
    about: 'List who can read and write an environment',
    load: async () => (await import('./access.ts')).access,
  },
  {
    name: 'explain',
    about: 'Explain whether somebody may do something',
    load: async () => (await import('./explain.ts')).explain,
  },
  {
    name: 'sync',
    about: 'Push secrets to other systems',
    commands: [
      {
        name: 'status',
        about: 'Show syncs and their runs',
        load: async () => (await import('./sync/status.ts')).status,
      },
      { name: 'plan', about: 'Show what a run would do', load: async () => (await import('./sync/plan.ts')).plan },
      { name: 'run', about: 'Push now', load: async () => (await import('./sync/run.ts')).run },
      { name: 'pause', about: 'Stop pushing', load: async () => (await import('./sync/pause.ts')).pause },
      { name: 'resume', about: 'Push again', load: async () => (await import('./sync/pause.ts')).resume },
    ],
  },
  {
    name: 'completion',
    about: 'Print the completion script of a shell',
    load: async () => (await import('./completion.ts')).completion,
  },
  {
    name: 'doctor',
    about: 'Check everything that commands need here',
    load: async () => (await import('./doctor.ts')).doctor,
  },
  {
    name: '__complete',
    about: 'Print the words that may come next',
    isHidden: true,
    load: async () => (await import('./complete.ts')).completeWords(commandTable),
  },
]
