/**
 * The scripts that shells load. Each asks `coffer __complete -- WORDS…` for the words that may come next. The last word is
 * the one under the cursor, and may be empty.
 */

export const shells = ['bash', 'zsh', 'fish', 'powershell'] as const
export type ShellName = (typeof shells)[number]

const bash = `# coffer completion for bash: eval "$(coffer completion bash)"
_coffer() {
  local line IFS=$'\\n'
  local -a words=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  COMPREPLY=()
  while read -r line; do
    COMPREPLY+=("$(printf '%q' "\${line%%$'\\t'*}")")
  done < <("\${COMP_WORDS[0]}" __complete -- "\${words[@]}" 2>/dev/null)
  if [ "\${#COMPREPLY[@]}" = 0 ]; then compopt -o default 2>/dev/null; fi
  case \${COMPREPLY[0]-} in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _coffer coffer
`

const zsh = `#compdef coffer
# coffer completion for zsh: source <(coffer completion zsh)
_coffer() {
  local -a found
  local line
  while IFS= read -r line; do
    found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <("$words[1]" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe coffer found; else _files; fi
}
if [ "$funcstack[1]" = _coffer ]; then _coffer "$@"; else compdef _coffer coffer; fi
`

const fish = `# coffer completion for fish: coffer completion fish | source
function __coffer_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] __complete -- $words[2..-1] 2>/dev/null
end
complete -c coffer -e
complete -c coffer -n 'test (count (__coffer_complete)) -gt 0' -f
complete -c coffer -a '(__coffer_complete)'
`

const powershell = `# coffer completion for PowerShell: coffer completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName coffer -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  if ($wordToComplete -eq '') { $words += '""' }
  coffer __complete -- @words 2>$null | ForEach-Object {
    $name, $about = $_ -split "\`t", 2
    if (-not $about) { $about = $name }
    [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $about)
  }
}
`

export const completionScripts: Readonly<Record<ShellName, string>> = { bash, zsh, fish, powershell }
