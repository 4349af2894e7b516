/** Values of one cell as they were read: that of everyone, and one's own. */
export type CellValue = { readonly text: string; readonly version: number }
export type CellValues = { readonly shared?: CellValue; readonly personal?: CellValue }
