/** Keys of the grid and of every page, as the help dialog lists them. */
export const keyHelp = [
  { keys: ['↑', '↓', '←', '→'], text: 'Move between cells' },
  { keys: ['Page Up', 'Page Down'], text: 'Move by a page' },
  { keys: ['Home', 'End'], text: 'First and last column; with Ctrl first and last cell' },
  { keys: ['Enter', 'F2'], text: 'Edit the value, or rename the secret' },
  { keys: ['Alt+Enter'], text: 'While editing: several lines' },
  { keys: ['Esc'], text: 'Cancel the edit' },
  { keys: ['Space'], text: 'Reveal or hide the value' },
  { keys: ['Del'], text: 'Remove the value when you save' },
  { keys: ['Ctrl+Z'], text: 'Undo the last edit' },
  { keys: ['Ctrl+S'], text: 'Review and save' },
  { keys: ['Ctrl+K'], text: 'Go to a project, a secret or a page' },
] as const

export const letterHelp = [
  { keys: ['c'], text: 'Copy the value' },
  { keys: ['Shift+C'], text: 'Copy the name' },
  { keys: ['e'], text: 'Open the side editor' },
  { keys: ['h'], text: 'History of the value' },
  { keys: ['n'], text: 'New secret' },
  { keys: ['z'], text: 'Undo the last edit' },
  { keys: ['/'], text: 'Filter' },
  { keys: ['g', 'p'], text: 'Go to the projects' },
  { keys: ['g', 't'], text: 'Go to the tokens' },
  { keys: ['g', 'a'], text: 'Go to the audit log, as an admin' },
  { keys: ['g', 's'], text: 'Go to the settings of the workspace, as an admin' },
  { keys: ['?'], text: 'This list' },
] as const
