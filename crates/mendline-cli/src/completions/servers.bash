# The names of servers, where one is wanted; else commands and options.
_mendline_or_server() {
    local line="${COMP_LINE:0:COMP_POINT}" names name quoted before
    if [[ "$2" != -* ]] && names="$(command mendline completions --names "${line}" 2>/dev/null)" && [[ -n "${names}" ]]; then
        COMPREPLY=()
        # Bash replaces only what comes after the last of these.
        before="${line##*[[:space:]]}"
        before="${before%"${before##*[:=@]}"}"
        while IFS= read -r name; do
            # As it must be written where it is written, so that it means nothing but itself.
            case "${COMP_WORDS[COMP_CWORD]}" in
                \'*) quoted="${name//\'/\'\\\'\'}" ;;
                \"*) quoted="$(printf '%s' "${name}" | sed 's/[\\"$`]/\\&/g')" ;;
                *) printf -v quoted '%q' "${name}" ;;
            esac
            if [[ "${quoted}" == "${before}$2"* || "${name}" == "${before}$2"* ]]; then
                COMPREPLY+=("${quoted#"${before}"}")
            fi
        done <<< "${names}"
        # A file of that name is not meant.
        compopt +o default +o bashdefault 2>/dev/null
        return 0
    fi
    _mendline "$@"
}

