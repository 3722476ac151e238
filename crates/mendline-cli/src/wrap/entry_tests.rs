//! Entries before and after wrapping.

use super::document::{Document, PARSED, Section, Syntax};
use super::edit::apply;
use super::plan::{Action, Chosen, EntryResult, Plan, Server};
use super::program::Program;

const WRAP: Action<'static> = Action::Wrap { program: &PROGRAM };
static PROGRAM: Program = Program::at(std::borrow::Cow::Borrowed("/bin/mendline"));

fn plan(text: &str, action: Action<'_>, named: bool) -> Plan {
    let syntax = if text.trim_start().starts_with('{') { Syntax::Json } else { Syntax::Toml };
    let chosen: Chosen = named.then(|| "a".to_owned()).into_iter().collect();
    Plan::make(text.to_owned(), syntax, &[], action, &chosen).unwrap()
}

fn server(plan: &Plan) -> &Server {
    assert_eq!(plan.servers.len(), 1);
    &plan.servers[0]
}

/// A file with this entry.
fn file(entry: &str) -> String {
    format!("{{\"mcpServers\": {{\"a\": {entry}}}}}")
}

#[track_caller]
fn becomes(entry: &str, wrapped: &str) {
    let plan = plan(&file(entry), WRAP, false);
    assert_eq!(server(&plan).result, EntryResult::Changed);
    assert_eq!(plan.after, file(wrapped));
}

#[track_caller]
fn stays(entry: &str, reason: &str) {
    let plan = plan(&file(entry), WRAP, false);
    let EntryResult::Left(told) = &server(&plan).result else { panic!("{entry} was wrapped: {}", plan.after) };
    assert!(told.contains(reason), "{told}");
    assert!(!plan.changes());
}

#[track_caller]
fn comes_back(wrapped: &str, entry: &str, note: &str) {
    let plan = plan(&file(wrapped), Action::Unwrap, false);
    assert_eq!(server(&plan).result, EntryResult::Changed);
    assert_eq!(plan.after, file(entry));
    assert!(server(&plan).notes.join("; ").contains(note), "{:?}", server(&plan).notes);
}

#[test]
fn command_moves_behind_mendline_run() {
    becomes(
        r#"{"command": "npx", "args": ["-y", "notes"], "env": {"K": "v"}, "disabled": true}"#,
        r#"{"command": "/bin/mendline", "args": ["run", "--name", "a", "--", "npx", "-y", "notes"], "env": {"K": "v"}, "disabled": true}"#,
    );
    becomes(
        "{\n  \"command\": \"notes\" // why\n}",
        "{\n  \"command\": \"/bin/mendline\",\n  \"args\": [\"run\", \"--name\", \"a\", \"--entry-without\", \"args\", \"--\", \"notes\"] // why\n}",
    );
}

#[test]
fn u03_policies_of_entry_become_flags_and_stay() {
    let entry = r#"{"command": "npx", "args": ["notes"], "timeouts": {"call": "2m", "connect": null}, "retry": {"codes": {"-7": "always"}}, "startup": "wait", "tools": {"a.b": {"timeout": 30000, "approval_mode": "x"}}, "timeout": 5}"#;
    let wrapped = r#"{"command": "/bin/mendline", "args": ["run", "--name", "a", "--policy", "timeouts.call=2m", "--policy", "retry.codes.-7=always", "--policy", "startup=wait", "--policy", "tools.a.b.timeout=30000", "--", "npx", "notes"], "timeouts": {"call": "2m", "connect": null}, "retry": {"codes": {"-7": "always"}}, "startup": "wait", "tools": {"a.b": {"timeout": 30000, "approval_mode": "x"}}, "timeout": 5}"#;
    becomes(entry, wrapped);
    let plan = plan(&file(wrapped), Action::Unwrap, false);
    assert_eq!((plan.after.as_str(), &server(&plan).notes), (file(entry).as_str(), &Vec::new()));
    becomes(
        r#"{"url": "http://localhost/mcp", "timeouts": {"connect": "3s"}}"#,
        r#"{"command": "/bin/mendline", "args": ["run", "--name", "a", "--policy", "timeouts.connect=3s", "http://localhost/mcp"], "timeouts": {"connect": "3s"}}"#,
    );
}

#[test]
fn u03_policies_of_codex_and_of_a_bridge_become_flags() {
    let codex = "[mcp_servers.a]\ncommand = \"x\"\nargs = []\nstartup_timeout_sec = 20\n[mcp_servers.a.autoReconnect]\nmaxRetries = 1_000\n";
    let wrapped = plan(codex, WRAP, false);
    assert!(wrapped.after.contains(r#""--policy", "autoReconnect.maxRetries=1000", "--""#), "{}", wrapped.after);
    assert!(!wrapped.after.contains("startup_timeout_sec=") && wrapped.after.contains("startup_timeout_sec = 20"));
    assert_eq!(plan(&wrapped.after, Action::Unwrap, false).after, codex);
    let bridge = file(r#"{"command": "npx", "args": ["mcp-remote", "http://localhost/sse"], "trustHints": false}"#);
    let wrapped = plan(&bridge, WRAP, false);
    assert!(wrapped.after.contains(r#""--policy", "trustHints=false""#), "{}", wrapped.after);
    assert_eq!(plan(&wrapped.after, Action::Unwrap, false).after, bridge);
}

#[test]
fn u03_defaults_of_the_file_are_carried_over_unless_overridden() {
    let text = r#"{"mendline": {"defaults": {"timeouts": {"call": "9m", "recovery": "7s"}}}, "mcpServers": {"a": {"command": "x", "args": [], "timeouts": {"call": "2m"}}}}"#;
    let wrapped = plan(text, WRAP, false);
    assert!(
        wrapped.after.contains(r#""--policy", "timeouts.call=2m", "--policy", "timeouts.recovery=7s", "--""#),
        "{}",
        wrapped.after
    );
    assert_eq!(plan(&wrapped.after, Action::Unwrap, false).after, text);
}

#[test]
fn u03_wrong_policy_is_named_and_not_carried_over() {
    for (policy, why) in [
        (r#""timeouts": {"call": "soon"}"#, "`call` must be a duration"),
        (r#""timeouts": {"call": "2m", "total": "1m"}"#, "longer than `total`"),
        (r#""autoReconnect": {"maxRetrys": 5}"#, "did you mean `maxRetries`?"),
        (r#""startup": ["x"]"#, "`startup` is a list"),
    ] {
        let text = file(&format!(r#"{{"command": "x", "args": [], {policy}, "trustHints": true}}"#));
        let plan = plan(&text, WRAP, false);
        assert!(plan.after.contains(r#""--name", "a", "--policy", "trustHints=true", "--""#), "{}", plan.after);
        let told = server(&plan).notes.join("; ");
        assert!(told.contains("is not carried over and has no effect") && told.contains(why), "{policy}: {told}");
    }
}

#[test]
fn u03_dropped_policy_is_named() {
    comes_back(
        r#"{"command": "/bin/mendline", "args": ["run", "--policy", "timeouts.call=2m", "--policy", "startup=wait", "--", "x", "y"], "startup": "wait"}"#,
        r#"{"command": "x", "args": ["y"], "startup": "wait"}"#,
        "drops --policy timeouts.call=2m, which only Mendline understands",
    );
}

#[test]
fn arguments_on_separate_lines_stay_there() {
    becomes(
        "{\r\n\t\"command\": \"npx\",\r\n\t\"args\": [\r\n\t\t\"-y\",\r\n\t\t\"notes\"\r\n\t]\r\n}",
        "{\r\n\t\"command\": \"/bin/mendline\",\r\n\t\"args\": [\r\n\t\t\"run\", \"--name\", \"a\", \"--\", \"npx\",\r\n\t\t\"-y\",\r\n\t\t\"notes\"\r\n\t]\r\n}",
    );
}

#[test]
fn url_becomes_command_and_headers_become_environment() {
    becomes(
        r#"{"type": "http", "url": "https://e.com/mcp", "headers": {"Authorization": "Bearer ${T}"}}"#,
        r#"{"type": "stdio", "command": "/bin/mendline", "args": ["run", "--name", "a", "--transport", "http", "--header-env", "Authorization=MENDLINE_HEADER_AUTHORIZATION", "https://e.com/mcp"], "env": {"MENDLINE_HEADER_AUTHORIZATION": "Bearer ${T}"}}"#,
    );
}

#[test]
fn s10_entry_with_credential_over_http_keeps_working_with_warning() {
    let entry = r#"{"url": "http://nas.test/mcp", "headers": {"X-Api-Key": "s3cret"}}"#;
    let wrapped = r#"{"command": "/bin/mendline", "args": ["run", "--name", "a", "--header-env", "X-Api-Key=MENDLINE_HEADER_X_API_KEY", "--allow-http", "http://nas.test/mcp"], "env": {"MENDLINE_HEADER_X_API_KEY": "s3cret"}}"#;
    becomes(entry, wrapped);
    let told = server(&plan(&file(entry), WRAP, false)).notes.join("; ");
    assert!(told.starts_with("warning: the header X-Api-Key would go to http://nas.test unencrypted"), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
    comes_back(wrapped, entry, "");
    // On this machine and over https nothing changes.
    for url in ["http://localhost:3000/mcp", "https://nas.test/mcp"] {
        let plan = plan(&file(&entry.replace("http://nas.test/mcp", url)), WRAP, false);
        assert!(!plan.after.contains("--allow-http") && server(&plan).notes.is_empty(), "{}", plan.after);
    }
    let bridge = r#"{"command": "npx", "args": ["mcp-remote", "http://nas.test/mcp", "--header", "X-Api-Key: s3cret", "--allow-http"]}"#;
    let plan = plan(&file(bridge), WRAP, false);
    assert!(plan.after.contains("--allow-http"), "{}", plan.after);
    assert!(server(&plan).notes.join("; ").contains("warning: the header X-Api-Key"), "{:?}", server(&plan).notes);
}

#[test]
fn possibly_secret_url_goes_into_the_environment() {
    becomes(
        r#"{"url": "https://e.com/mcp?key=s3cret"}"#,
        r#"{"command": "/bin/mendline", "args": ["run", "--name", "a", "--entry-without", "env", "--url-env", "MENDLINE_URL"], "env": {"MENDLINE_URL": "https://e.com/mcp?key=s3cret"}}"#,
    );
}

#[test]
fn s03_url_with_secret_path_or_host_goes_into_environment() {
    for url in [
        "https://mcp.zapier.test/api/mcp/s/CANARYpathKEY0123456789abcdef/mcp",
        "https://e.com/s/4f9d1c/mcp",
        "https://4f9d1c7a2b8e.tunnel.test/mcp",
        "https://e.com/swordfishes-of-the-sea/mcp",
    ] {
        let text = file(&format!(r#"{{"url": "{url}", "headers": {{"X-Key": "a"}}}}"#));
        let wrapped = plan(&text, WRAP, false);
        let args = wrapped.after.split("\"env\"").next().unwrap();
        assert!(args.contains("\"--url-env\", \"MENDLINE_URL\"]") && !args.contains(url), "{}", wrapped.after);
        assert_eq!(plan(&wrapped.after, Action::Unwrap, false).after, text);
    }
    let bridge = file(r#"{"command": "npx", "args": ["mcp-remote", "http://localhost/s/4f9d1c/sse"]}"#);
    let wrapped = plan(&bridge, WRAP, false);
    assert!(wrapped.after.contains(r#""--url-env", "MENDLINE_URL"]"#), "{}", wrapped.after);
    assert_eq!(plan(&wrapped.after, Action::Unwrap, false).after, bridge);
}

#[test]
fn s03_literal_beside_variable_is_no_argument() {
    let text = file(
        r#"{"command": "npx", "args": ["mcp-remote", "https://e.com/mcp", "--header", "Authorization: Bearer s3cret${X}"]}"#,
    );
    let wrapped = plan(&text, WRAP, false);
    assert!(wrapped.after.contains(r#""--", "npx", "mcp-remote""#), "the bridge stays a command: {}", wrapped.after);
    assert!(server(&wrapped).notes[0].contains("holds a variable and something else"), "{:?}", server(&wrapped).notes);
}

#[test]
fn http_of_vscode_means_auto_transport() {
    let text = r#"{"servers": {"a": {"type": "http", "url": "http://localhost/x"}}}"#;
    let wrapped = plan(text, WRAP, false).after;
    assert!(wrapped.contains(r#""--transport", "auto""#), "{wrapped}");
    assert_eq!(plan(&wrapped, Action::Unwrap, false).after, text);
}

#[test]
fn bridge_is_replaced_flag_by_flag() {
    let text = file(
        r#"{"command": "npx", "args": ["mcp-remote", "https://e.com/sse", "--header", "Authorization: Bearer s3cret", "--header", "X-Key:${K}", "--transport", "sse-only", "--debug"], "env": {"K": "v"}}"#,
    );
    let plan = plan(&text, WRAP, false);
    let document = Document::parse(&plan.after, Syntax::Json).unwrap();
    let section: Section = vec!["mcpServers".to_owned()];
    let table = document.servers(&section)[0].table().unwrap();
    let words = table.get("args").unwrap().texts().unwrap();
    assert_eq!(
        words,
        [
            "run",
            "--name",
            "a",
            "--log-level",
            "debug",
            "--transport",
            "sse-only",
            "--header-env",
            "Authorization=MENDLINE_HEADER_AUTHORIZATION",
            "--header",
            "X-Key: ${K}",
            "https://e.com/sse",
        ]
    );
    let value = |name: &str| table.table("env").unwrap().get(name).unwrap().text().unwrap();
    assert_eq!((value("MENDLINE_HEADER_AUTHORIZATION"), value("K")), ("Bearer s3cret", "v"));
    assert!(server(&plan).notes[0].contains("replaces the bridge"));
}

#[test]
fn bridge_with_a_login_becomes_a_login_of_mendline() {
    let plan = plan(&file(r#"{"command": "npx", "args": ["mcp-remote", "https://e.com/sse"]}"#), WRAP, false);
    assert!(server(&plan).notes[0].contains("mendline login a"), "{:?}", server(&plan).notes);
    assert!(plan.after.contains(r#""--entry-without", "env", "https://e.com/sse""#), "{}", plan.after);
}

#[test]
fn secret_of_a_registered_client_moves_to_the_environment() {
    let info = r#"{\"client_id\": \"id\", \"client_secret\": \"s3cret\"}"#;
    let entry = format!(
        r#"{{"command": "npx", "args": ["-y", "mcp-remote", "https://e.com/sse", "--static-oauth-client-info", "{info}"]}}"#
    );
    let plan = plan(&file(&entry), WRAP, false);
    let words = r#""--client-id", "id", "--client-secret-env", "MENDLINE_CLIENT_SECRET""#;
    assert!(plan.after.contains(words), "{}", plan.after);
    assert!(plan.after.contains(r#""MENDLINE_CLIENT_SECRET": "s3cret""#), "{}", plan.after);
}

#[test]
fn unsupported_entry_is_left_with_the_reason() {
    stays(r#"{"type": "sdk", "command": "x"}"#, "its type \"sdk\"");
    stays("{}", "neither a command nor a url");
    stays(r#"{"command": "x", "url": "http://localhost"}"#, "both");
    stays(r#"{"url": "https://e.com/mcp"}"#, "no credential");
    stays(r#"{"url": "https://e.com/mcp", "headers": {"X-Region": "eu"}}"#, "--server a");
    stays(r#"{"url": "https://e.com/mcp", "oauth": {}}"#, "\"oauth\"");
    stays(r#"{"url": "http://localhost", "env": {}, "headers": {}}"#, "\"env\" beside its headers");
    stays(r#"{"url": "ftp://localhost"}"#, "url cannot be used");
    stays(r#"{"url": "http://localhost", "headers": {"A": "b\nc"}}"#, "header");
    stays(r#"{"command": "x", "args": {}}"#, "not a list of texts");
    stays(r#"{"command": "node", "dev": {"debug": {"type": "node"}}}"#, "debugger");
    stays("1", "not a table");
}

#[test]
fn entry_that_cannot_be_restored_is_not_wrapped() {
    for entry in [
        r#"{"url": "http://localhost", "env": {}}"#,
        r#"{"\u0075rl": "http://localhost"}"#,
        r#"{"url": "http://localhost", "type": "\u0068ttp"}"#,
        r#"{"url": "http://localhost", "\u0068eaders": {}}"#,
    ] {
        stays(entry, "could not be restored exactly");
    }
}

#[test]
fn named_server_is_wrapped_without_a_credential() {
    assert!(plan(&file(r#"{"url": "https://e.com/mcp"}"#), WRAP, true).changes());
}

#[test]
fn later_changes_are_kept_when_unwrapping() {
    comes_back(
        r#"{"command": "/bin/mendline", "args": ["run", "--name", "a", "--", "npx", "-y", "notes", "--more"], "env": {"NEW": "1"}}"#,
        r#"{"command": "npx", "args": ["-y", "notes", "--more"], "env": {"NEW": "1"}}"#,
        "",
    );
    comes_back(
        r#"{"command": "/old/mendline", "args": ["run", "--header-env", "A=MENDLINE_HEADER_A", "http://e.com"], "env": {"MENDLINE_HEADER_A": "rotated"}}"#,
        r#"{"url": "http://e.com", "headers": {"A": "rotated"}}"#,
        "",
    );
    comes_back(
        r#"{"command": "mendline", "args": ["run", "http://e.com"], "env": {"NEW": "1"}}"#,
        r#"{"url": "http://e.com", "env": {"NEW": "1"}}"#,
        "",
    );
}

#[test]
fn changed_token_is_kept_when_a_bridge_is_restored() {
    let bridge = |token: &str| {
        format!(
            r#"{{"command": "npx", "args": ["mcp-remote", "https://e.com", "--header",  "Authorization:Bearer {token}" /* t */]}}"#
        )
    };
    let wrapped = plan(&file(&bridge("old")), WRAP, false).after;
    let rotated = wrapped.replace(
        r#""MENDLINE_HEADER_AUTHORIZATION": "Bearer old""#,
        r#""MENDLINE_HEADER_AUTHORIZATION": "Bearer new""#,
    );
    assert_ne!(rotated, wrapped);
    let back = plan(&rotated, Action::Unwrap, false).after;
    assert_eq!(back, file(&bridge("new").replace("Authorization:B", "Authorization: B")));
    let assigned = file(r#"{"command": "supergateway", "args": ["--sse", "http://localhost", "--oauth2Bearer=old"]}"#);
    let rotated = plan(&assigned, WRAP, false).after.replace(r#""Bearer old""#, r#""Bearer new""#);
    let back = plan(&rotated, Action::Unwrap, false);
    assert_eq!(back.after, assigned);
    assert!(server(&back).notes[0].contains("Authorization comes back as it was"), "{:?}", server(&back).notes);
}

#[test]
fn dropped_flags_and_variables_are_named() {
    comes_back(
        r#"{"command": "mendline", "args": ["run", "--call-timeout", "2m", "--name", "a", "--tell-client", "--", "npx"]}"#,
        r#"{"command": "npx", "args": []}"#,
        "drops --call-timeout 2m, --tell-client",
    );
    comes_back(
        r#"{"command": "mendline", "args": ["run", "--header-env", "A=V", "http://e.com"], "env": {"X": "1", "V": "t", "Y": "2"}}"#,
        r#"{"url": "http://e.com", "headers": {"A": "t"}}"#,
        "drops X, Y from env",
    );
}

#[test]
fn entry_without_its_variables_is_left_unchanged() {
    for (entry, reason) in [
        (r#"{"command": "mendline", "args": ["run", "--header-env", "A=V", "http://e.com"]}"#, "are gone"),
        (
            r#"{"command": "mendline", "args": ["run", "--header-env", "A=V", "http://e.com"], "env": {}}"#,
            "header A is gone",
        ),
        (r#"{"command": "mendline", "args": ["run", "--url-env", "V"]}"#, "V is gone"),
        (r#"{"command": "mendline", "args": ["run", "--header", "A: b", "http://e.com"]}"#, "--header was not written"),
        (r#"{"command": "mendline", "args": ["run", "notes"]}"#, "not written by"),
        (r#"{"command": "mendline", "args": ["run"]}"#, "not written by"),
    ] {
        let plan = plan(&file(entry), Action::Unwrap, false);
        let EntryResult::Left(told) = &server(&plan).result else { panic!("{entry}: {}", plan.after) };
        assert!(told.contains(reason), "{entry}: {told}");
    }
}

#[test]
fn other_entries_that_run_mendline_are_not_unwrapped() {
    for entry in [r#"{"command": "mendline", "args": ["serve"]}"#, r#"{"command": "npx", "args": ["run", "--", "x"]}"#]
    {
        assert_eq!(server(&plan(&file(entry), Action::Unwrap, false)).result, EntryResult::Already);
    }
}

/// A file with this many servers, of which some cannot be restored exactly.
fn large_file(servers: usize) -> String {
    let entry = |number: usize| match number % 10 {
        3 => r#"{"\u0075rl": "http://localhost"}"#.to_owned(),
        5 => format!(r#"{{"url": "https://e.com/{number}/mcp", "headers": {{"X-Key": "k"}}}}"#),
        7 => r#"{"url": "http://localhost", "env": {}}"#.to_owned(),
        _ => format!(r#"{{"command": "npx", "args": ["-y", "notes-{number}"]}}"#),
    };
    let entries: Vec<String> = (0..servers).map(|number| format!("\"s{number}\": {}", entry(number))).collect();
    format!("{{\"mcpServers\": {{\n{}\n}}}}", entries.join(",\n"))
}

#[test]
fn s11_file_is_parsed_a_bounded_number_of_times() {
    for servers in [20, 2_000] {
        let text = large_file(servers);
        PARSED.set(0);
        let wrapped = plan(&text, WRAP, false);
        let parsed = PARSED.get();
        let changed = wrapped.servers.iter().filter(|server| server.result == EntryResult::Changed).count();
        assert_eq!(changed, servers * 8 / 10);
        assert!(parsed <= 3 * (text.len() + wrapped.after.len()), "{parsed} bytes for {} of {servers}", text.len());
        PARSED.set(0);
        let back = plan(&wrapped.after, Action::Unwrap, false);
        let parsed = PARSED.get();
        assert_eq!(back.after, text);
        assert!(parsed <= 2 * (text.len() + wrapped.after.len()), "{parsed} bytes for {} of {servers}", text.len());
    }
}

#[test]
fn codex_entries_of_all_kinds_are_wrapped() {
    let text = "[mcp_servers.a]\nurl = \"https://e.com/mcp\" # prod\nbearer_token_env_var = \"T\"\nstartup_timeout_sec = 9\n\n[mcp_servers.a.http_headers]\n\"X-Region\" = \"eu\"\n";
    let wrapped = plan(text, WRAP, false);
    assert_eq!(
        wrapped.after,
        "[mcp_servers.a]\ncommand = \"/bin/mendline\"\nargs = [\"run\", \"--name\", \"a\", \"--header-env\", \"X-Region=MENDLINE_HEADER_X_REGION\", \"--header\", \"Authorization: Bearer ${T}\", \"https://e.com/mcp\"] # prod\nenv_vars = [\"T\"]\nstartup_timeout_sec = 9\n\n[mcp_servers.a.env]\n\"MENDLINE_HEADER_X_REGION\" = \"eu\"\n"
    );
    assert_eq!(plan(&wrapped.after, Action::Unwrap, false).after, text);
}

#[test]
fn server_names_are_normalized() {
    let text = r#"{"mcpServers": {"my server__1": {"command": "x"}}}"#;
    let wrapped = plan(text, WRAP, false).after;
    assert!(wrapped.contains(r#""--name", "my-server_1""#), "{wrapped}");
}

#[test]
fn reformatted_entries_are_restored() {
    let wrapped = "{\n\"command\": \"mendline\",\n\"env\": {\n\"V\": \"t\",\n},\n\"args\": [\n\"run\",\n\"--header-env\",\n\"A=V\",\n\"http://e.com\",\n],\n}";
    let plan = plan(&file(wrapped), Action::Unwrap, false);
    assert_eq!(plan.after, file("{\n\"url\": \"http://e.com\",\n\"headers\": {\n\"A\": \"t\",\n},\n}"));
    assert_eq!(apply(&plan.before, &plan.edits), plan.after);
}
