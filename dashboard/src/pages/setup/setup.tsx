/** The first run: an account, a first project with its secrets, and how to use them. */
import { useState } from 'react'
import type { SecretPlace } from '../grid/snippets.ts'
import { AccountStep } from './account-step.tsx'
import { ProjectStep } from './project-step.tsx'
import './setup.css'
import { UseStep } from './use-step.tsx'

type Step =
  | { readonly at: 'account' }
  | { readonly at: 'project'; readonly ws: string }
  | { readonly at: 'use'; readonly place: SecretPlace; readonly isEmpty: boolean }

/** Steps live in memory: after a reload the account exists, and its workspace offers the same things. */
export function Setup() {
  const [step, setStep] = useState<Step>({ at: 'account' })
  return (
    <main className={step.at === 'use' ? 'setup wide' : 'setup'}>
      {step.at === 'account' && <AccountStep onDone={(ws) => setStep({ at: 'project', ws })} />}
      {step.at === 'project' && (
        <ProjectStep ws={step.ws} onDone={(place, isEmpty) => setStep({ at: 'use', place, isEmpty })} />
      )}
      {step.at === 'use' && <UseStep place={step.place} isEmpty={step.isEmpty} />}
    </main>
  )
}
