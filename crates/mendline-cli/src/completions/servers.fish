
# The names of servers, where one is wanted, and then no files.
function __mendline_servers
    command mendline completions --names (commandline -cp | string collect) 2>/dev/null
end
complete -c mendline -n "__fish_mendline_using_subcommand COMMANDS; and __mendline_servers >/dev/null" -f -a "(__mendline_servers)"
