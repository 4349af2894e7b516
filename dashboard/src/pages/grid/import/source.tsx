import { type DragEvent, useRef, useState } from 'react'
import type { LineProblem } from '../../../api/secret-import.ts'
import { Button } from '../../../parts/button.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { SelectField } from '../../../parts/field.tsx'
import { formatNames, type ImportFormat, recogniseFormat } from './format.ts'
import { LineArea } from './line-area.tsx'

export type ImportSource = {
  readonly text: string
  readonly format: ImportFormat
  /** The format follows the text until somebody chooses one. */
  readonly isFormatChosen: boolean
}

export const sourceOf = (text: string, fileName?: string): ImportSource => ({
  text,
  format: recogniseFormat(text, fileName),
  isFormatChosen: fileName !== undefined,
})

const formats = ['dotenv', 'json', 'yaml', 'csv'] as const satisfies readonly ImportFormat[]
const maxBytes = 8 * 1024 * 1024

type SourceProps = {
  readonly source: ImportSource
  readonly onChange: (source: ImportSource) => void
  readonly problem: LineProblem | undefined
}

/** Text that is pasted or typed, or a file that is chosen or dropped. */
export function SourceFields({ source, onChange, problem }: SourceProps) {
  const [fileProblem, setFileProblem] = useState<string>()
  const [isOver, setOver] = useState(false)
  const fileInput = useRef<HTMLInputElement>(null)

  async function take(file: File | undefined): Promise<void> {
    if (!file) return
    setFileProblem(undefined)
    if (file.size > maxBytes) return setFileProblem(`${file.name} is larger than 8 MiB.`)
    try {
      onChange(sourceOf(new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer()), file.name))
    } catch {
      setFileProblem(`${file.name} is not text in UTF-8.`)
    }
  }

  function edit(text: string): void {
    onChange(source.isFormatChosen && text !== '' ? { ...source, text } : sourceOf(text))
  }

  function drag(event: DragEvent): void {
    event.preventDefault()
    setOver(event.type === 'dragover')
    if (event.type === 'drop') void take(event.dataTransfer.files[0])
  }

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button beside it opens the same file by keyboard
    <div
      className={`flex flex-col gap-3 ${isOver ? 'drop-target' : ''}`}
      onDragOver={drag}
      onDragLeave={drag}
      onDrop={drag}
    >
      <LineArea label="Paste your secrets, or drop a file here" text={source.text} onChange={edit} problem={problem} />
      <div className="flex flex-wrap items-end gap-3">
        <div className="w-40">
          <SelectField
            label="Format"
            value={source.format}
            onChange={(event) => {
              const format = formats.find((one) => one === event.target.value) ?? 'dotenv'
              onChange({ ...source, format, isFormatChosen: true })
            }}
          >
            {formats.map((format) => (
              <option key={format} value={format}>
                {formatNames[format]}
              </option>
            ))}
          </SelectField>
        </div>
        <Button onClick={() => fileInput.current?.click()}>Choose a file</Button>
        <input
          ref={fileInput}
          type="file"
          hidden
          aria-label="File to import"
          onChange={(event) => {
            const [file] = event.target.files ?? []
            event.target.value = ''
            void take(file)
          }}
        />
      </div>
      <ErrorNote error={fileProblem} />
    </div>
  )
}
