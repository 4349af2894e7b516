/**
 * The scripts that shells load. Each asks `coffer __complete -- WORDS…` for the words that may come next. The last word is
 * the one under the cursor, and may be empty. What follows `--` is a command of its own, which the shell completes.
 */

export const shells = ['bash', 'zsh', 'fish', 'powershell'] as const
export type ShellName = (typeof shells)[number]

const bash = `# coffer completion for bash: eval "$(coffer completion bash)"
_coffer() {
  local line IFS=$'\\n'
  local -a words=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  local -i at
  COMPREPLY=()
  for (( at = 1; at < COMP_CWORD; at++ )); do
    if [ "\${COMP_WORDS[at]}" = -- ]; then _coffer_command "$((at + 1))"; return; fi
  done
  while read -r line; do
    COMPREPLY+=("$(printf '%q' "\${line%%$'\\t'*}")")
  done < <("\${COMP_WORDS[0]}" __complete -- "\${words[@]}" 2>/dev/null)
  if [ "\${#COMPREPLY[@]}" = 0 ]; then compopt -o default 2>/dev/null; fi
  case \${COMPREPLY[0]-} in *=) compopt -o nospace 2>/dev/null ;; esac
}
_coffer_command() {
  local line IFS=$' \\t\\n'
  if declare -F _comp_command_offset >/dev/null; then _comp_command_offset "$1"; return; fi
  if declare -F _command_offset >/dev/null; then _command_offset "$1"; return; fi
  compopt -o filenames 2>/dev/null
  local -a kinds=(-A file)
  if [ "$COMP_CWORD" = "$1" ]; then kinds=(-A command -A file); fi
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "\${kinds[@]}" -- "\${COMP_WORDS[COMP_CWORD]}" | sort -u)
}
complete -F _coffer coffer
`

const zsh = `#compdef coffer
# coffer completion for zsh: source <(coffer completion zsh)
_coffer() {
  local -a found
  local line
  local -i at=\${words[(ie)--]}
  if (( at < CURRENT )); then
    shift at words
    (( CURRENT -= at ))
    _normal
    return
  fi
  while IFS= read -r line; do
    found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <("$words[1]" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe coffer found; else _files; fi
}
if [ "$funcstack[1]" = _coffer ]; then _coffer "$@"; else compdef _coffer coffer; fi
`

const fish = `# coffer completion for fish: coffer completion fish | source
function __coffer_complete
  if commandline -cp | string match -qr '\\s--\\s'
    complete -C (commandline -cp | string replace -r '^.*?\\s--\\s+' '')
    return
  end
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
  $line = $commandAst.ToString().PadRight($cursorPosition - $commandAst.Extent.StartOffset)
  if ($line -match '^.*?\\s--\\s+(.*)$') {
    return (TabExpansion2 -inputScript $Matches[1] -cursorColumn $Matches[1].Length).CompletionMatches
  }
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
