import { Link } from '@tanstack/react-router'
import { Snippet } from '../../parts/copy.tsx'
import { type SecretPlace, snippetsFor } from '../grid/snippets.ts'
import { Step } from './step.tsx'

export function UseStep({ place, isEmpty }: { readonly place: SecretPlace; readonly isEmpty: boolean }) {
  const hint = isEmpty
    ? 'Once the project has secrets, this is how your application gets them.'
    : `Your secrets are in ${place.environment}. This is how your application gets them.`
  return (
    <Step number={3} title="Use your secrets" hint={hint}>
      <p className="hint">
        The commands need the Coffer command line. “Use in app” on the page of the project shows how to install it.
      </p>
      {snippetsFor(place).map(({ title, hint, text }) => (
        <section key={title} className="flex flex-col gap-1">
          <h2>{title}</h2>
          <p className="hint">{hint}</p>
          <Snippet text={text} label={title} />
        </section>
      ))}
      <div className="setup-actions">
        <Link className="button primary" to="/$ws/$prj" params={{ ws: place.workspace, prj: place.project }}>
          Go to your secrets
        </Link>
      </div>
    </Step>
  )
}
