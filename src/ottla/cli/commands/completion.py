"""`ottla completion bash|zsh|fish`: the lines that teach a shell nouns, options, and the names of topics and groups.

The scripts ask `ottla __complete WORDS…` at each Tab, so that they never go stale. Where there is no answer, the shell's
own completion of file names takes over.
"""

from __future__ import annotations

from ottla.cli.options import Options

__all__ = ["main", "options"]

BASH = """\
# Ottla's completion: add `source <(ottla completion bash)` to ~/.bashrc
_ottla() {
    local IFS=$'\\n'
    COMPREPLY=($("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _ottla ottla
_ottla_kafka() {
    local IFS=$'\\n'
    COMPREPLY=($(ottla __complete "@${COMP_WORDS[0]##*/}" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _ottla_kafka SCRIPTS
"""
ZSH = """\
#compdef ottla
# Ottla's completion: add `source <(ottla completion zsh)` to ~/.zshrc, behind compinit
_ottla() {
    local -a found
    found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        compadd -a found
    else
        _files
    fi
}
compdef _ottla ottla
_ottla_kafka() {
    local -a found
    found=("${(@f)$(ottla __complete "@${words[1]:t}" "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        compadd -a found
    else
        _files
    fi
}
compdef _ottla_kafka SCRIPTS
"""
FISH = """\
# Ottla's completion: add `ottla completion fish | source` to ~/.config/fish/config.fish
function __ottla_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] __complete $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c ottla -f -a '(__ottla_complete)'
function __ottla_kafka_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (ottla __complete @(basename $words[1]) $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
for name in SCRIPTS
    complete -c $name -f -a '(__ottla_kafka_complete)'
end
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def main(argv: list[str]) -> int:
    """Print the shell's lines, for `ottla` and for Kafka's script names."""
    from ottla.cli.kafka_names import SCRIPTS
    from ottla.cli.main import NOUNS

    names = [name for name, (noun, *_) in SCRIPTS.items() if noun in NOUNS]
    text = SHELLS[options().parse(argv).shell]
    print(text.replace("SCRIPTS", " ".join(f"{name} {name}.sh" for name in names)), end="")
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options("completion", "Print what teaches a shell to complete nouns, options, topics and groups.")
    parser.add_argument("shell", choices=list(SHELLS), help="bash: source <(ottla completion bash)")
    return parser
