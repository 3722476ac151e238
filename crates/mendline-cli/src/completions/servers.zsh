
# The names of servers.
_mendline_servers() {
    local -a names
    local expl
    # The quotes of the last word are not on the line while it is completed.
    local typed="${LBUFFER%"${PREFIX}"}${(q)PREFIX}"
    names=("${(@f)$(command mendline completions --names "${typed}" 2>/dev/null)}")
    names=("${(@)names:#}")
    (( $#names )) && _wanted servers expl server compadd -a names
}

