/** Light, dark, or as the system has it. Kept in this browser too, so that a page opens in the right colours. */
import type { Preferences } from '@coffer/sdk'

export type Theme = Preferences['theme']

const storageKey = 'coffer-theme'

export function storedTheme(): Theme {
  const stored = localStorage.getItem(storageKey)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

export function applyTheme(theme: Theme): void {
  localStorage.setItem(storageKey, theme)
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}
