/** Single letters as keys. They can be switched off (WCAG 2.1.4): then speech input cannot trigger them. */
const storageKey = 'coffer-letter-keys'

export const hasLetterKeys = () => localStorage.getItem(storageKey) !== 'off'
export const setLetterKeys = (isOn: boolean) => localStorage.setItem(storageKey, isOn ? 'on' : 'off')

export const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

/** An open dialog or menu gets the focus one frame after it is shown: until then, too, keys are not for the page behind. */
export const isCovered = () => document.querySelector('[role="dialog"], [role="menu"]') !== null
