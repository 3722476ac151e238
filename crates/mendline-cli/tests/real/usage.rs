//! Help, usage errors and exit codes of the command line, as snapshots.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::support::{Bridge, MENDLINE, SOON, Setup, eventually};

/// Runs a command and returns its exit code and its output.
fn run_to_end(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let state = tempfile::tempdir().unwrap();
    let output = Command::new(MENDLINE)
        .args(arguments)
        .env("MENDLINE_STATE_DIR", state.path())
        .env("MENDLINE_RUNTIME_DIR", state.path().join("run"))
        .env("HOME", state.path())
        .env_remove("COLUMNS")
        .env_remove("MENDLINE_LOG")
        .env_remove("MENDLINE_LOG_FILES")
        .env_remove("MENDLINE_CONFIG")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let code = output.status.code().unwrap();
    format!("exit code {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}

/// Never dialed, because the usage error comes first.
const ADDRESS: &str = "https://mcp.example.com/mcp";

macro_rules! snapshot_test {
    ($name:ident, $arguments:expr) => {
        snapshot_test!($name, $arguments, &[]);
    };
    ($name:ident, $arguments:expr, $environment:expr) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), run_to_end(&$arguments, $environment));
        }
    };
}

snapshot_test!(help, ["--help"]);
snapshot_test!(check_without_file_is_rejected, ["check"]);
snapshot_test!(check_of_missing_file_is_rejected, ["check", "/nonexistent/x.json"]);
snapshot_test!(config_with_command_is_rejected, ["run", "--config", "x.json", "--", "true"]);
snapshot_test!(logs_since_invalid_time_is_rejected, ["logs", "--since", "soon"]);
snapshot_test!(logs_of_invalid_call_number_is_rejected, ["logs", "--call", "mine"]);
snapshot_test!(logs_of_level_off_is_rejected, ["logs", "--level", "off"]);
snapshot_test!(
    invalid_log_file_level_in_environment_is_rejected,
    ["run", "--", "true"],
    &[("MENDLINE_LOG_FILES", "loud")]
);
snapshot_test!(help_all_of_run, ["run", "--help-all"]);
snapshot_test!(version, ["--version"]);
snapshot_test!(no_arguments_show_state_and_next_step, []);
snapshot_test!(mistyped_subcommand_is_rejected, ["chek"]);
snapshot_test!(url_as_subcommand_is_rejected, ["https://mcp.example.com/mcp"]);
snapshot_test!(server_as_subcommand_is_rejected, ["uvx", "notes-server"]);
snapshot_test!(completions_without_shell_are_rejected, ["completions"]);
snapshot_test!(completions_for_unknown_shell_are_rejected, ["completions", "tcsh"]);
snapshot_test!(manual_page_of_unknown_command_is_rejected, ["man", "fly"]);
snapshot_test!(manual_page_of_check, ["man", "check"]);
snapshot_test!(run_without_command_is_rejected, ["run"]);
snapshot_test!(run_without_dashes_is_rejected, ["run", "notes-server"]);
snapshot_test!(timeout_without_unit_is_rejected, ["run", "--call-timeout", "5", "--", "true"]);
snapshot_test!(timeout_of_zero_is_rejected, ["run", "--call-timeout", "0s", "--", "true"]);
snapshot_test!(name_with_two_underscores_is_rejected, ["run", "--name", "a__b", "--", "true"]);
snapshot_test!(name_with_invalid_characters_is_rejected, ["run", "--name", "my server", "--", "true"]);
snapshot_test!(invalid_log_level_is_rejected, ["run", "--log-level", "loud", "--", "true"]);
snapshot_test!(invalid_log_level_in_environment_is_rejected, ["run", "--", "true"], &[("MENDLINE_LOG", "loud")]);
snapshot_test!(unknown_flag_is_rejected, ["run", "--fast", "--", "true"]);
snapshot_test!(url_with_unknown_scheme_is_rejected, ["run", "ftp://mcp.example.com/mcp"]);
snapshot_test!(url_without_host_is_rejected, ["run", "http:///mcp"]);
snapshot_test!(url_with_credentials_is_rejected, ["run", "https://me@mcp.example.com/mcp?key=s3cret"]);
snapshot_test!(url_and_command_are_rejected, ["run", "https://mcp.example.com/mcp", "--", "true"]);
snapshot_test!(header_without_colon_is_rejected, ["run", "--header", "Authorization Bearer s3cret", ADDRESS]);
snapshot_test!(header_with_invalid_name_is_rejected, ["run", "--header", "My Key: s3cret", ADDRESS]);
snapshot_test!(header_with_invalid_value_is_rejected, ["run", "--header", "X-Key: s3cret\r\nX-More: s3cret", ADDRESS]);
snapshot_test!(framing_header_is_rejected, ["run", "--header", "Transfer-Encoding: chunked", ADDRESS]);
snapshot_test!(header_for_command_is_rejected, ["run", "--header", "X-Key: s3cret", "--", "true"]);
snapshot_test!(header_env_without_variable_is_rejected, ["run", "--header-env", "X-Key", ADDRESS]);
snapshot_test!(
    header_env_with_unset_variable_is_rejected,
    ["run", "--header-env", "X-Key=MENDLINE_TEST_UNSET", ADDRESS]
);
snapshot_test!(url_env_with_unset_variable_is_rejected, ["run", "--url-env", "MENDLINE_TEST_UNSET"]);
snapshot_test!(
    url_env_with_invalid_url_is_rejected,
    ["run", "--url-env", "HIDDEN"],
    &[("HIDDEN", "mcp.example.com?key=s3cret")]
);
snapshot_test!(url_with_invalid_variable_value_is_rejected, ["run", "${HIDDEN}/mcp"], &[("HIDDEN", "s3cret:")]);
snapshot_test!(url_and_url_env_are_rejected, ["run", "--url-env", "HIDDEN", ADDRESS]);
snapshot_test!(unset_variable_is_rejected, ["run", "--header", "X-Key: ${MENDLINE_TEST_UNSET}", ADDRESS]);
snapshot_test!(unterminated_variable_is_rejected, ["run", "--header", "X-Key: s3cret ${TOKEN", ADDRESS]);
snapshot_test!(unknown_transport_is_rejected, ["run", "--transport", "carrier-pigeon", ADDRESS]);
snapshot_test!(connect_timeout_of_zero_is_rejected, ["run", "--connect-timeout", "0s", ADDRESS]);
snapshot_test!(retries_below_minus_one_are_rejected, ["run", "--max-retries", "-2", "--", "true"]);
snapshot_test!(multiplier_below_one_is_rejected, ["run", "--backoff-multiplier", "0.5", "--", "true"]);
snapshot_test!(infinite_multiplier_is_rejected, ["run", "--backoff-multiplier", "inf", "--", "true"]);
snapshot_test!(keep_alive_below_minimum_is_rejected, ["run", "--keep-alive", "10ms", "--", "true"]);
snapshot_test!(too_many_attempts_are_rejected, ["run", "--max-attempts", "11", "--", "true"]);
snapshot_test!(unknown_effect_is_rejected, ["run", "--effect", "search=safe", "--", "true"]);
snapshot_test!(effect_without_tool_is_rejected, ["run", "--effect", "read", "--", "true"]);
snapshot_test!(
    two_effects_of_one_tool_are_rejected,
    ["run", "--effect", "a=read", "--effect", "a=unsafe", "--", "true"]
);
snapshot_test!(max_in_flight_of_zero_is_rejected, ["run", "--max-in-flight", "0", "--", "true"]);
snapshot_test!(no_reconnect_with_retries_is_rejected, ["run", "--no-reconnect", "--max-retries", "5", "--", "true"]);
snapshot_test!(
    zero_retries_with_delay_are_rejected,
    ["run", "--max-retries", "0", "--max-retry-delay", "5s", "--", "true"]
);
snapshot_test!(initial_delay_above_maximum_is_rejected, ["run", "--initial-retry-delay", "1m", "--", "true"]);
snapshot_test!(
    keep_alive_off_with_timeout_is_rejected,
    ["run", "--keep-alive", "off", "--keep-alive-timeout", "3s", "--", "true"]
);
snapshot_test!(
    call_timeout_above_total_is_rejected,
    ["run", "--call-timeout", "2m", "--total-timeout", "1m", "--", "true"]
);
snapshot_test!(resume_attempts_for_command_are_rejected, ["run", "--resume-attempts", "3", "--", "true"]);

/// Returns the commands on the first page of the help.
pub(crate) fn commands() -> Vec<String> {
    let page = run_to_end(&["--help"], &[]);
    let (_, groups) = page.split_once("\nConnect:\n").unwrap();
    let (groups, _) = groups.split_once("\nOptions:").unwrap();
    let rows = groups.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    rows.map(|row| row.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_has_reviewed_help() {
    let commands = commands();
    assert!(commands.len() > 7 && commands.contains(&"run".to_owned()), "{commands:?}");
    for command in commands {
        let help = run_to_end(&[&command, "--help"], &[]);
        assert!(help.starts_with("exit code 0\n"), "{help}");
        insta::assert_snapshot!(format!("help_of_{command}"), help);
    }
}

/// Returns the flags in a text.
fn flags(text: &str) -> BTreeSet<&str> {
    let words = text.split(|character: char| !(character.is_ascii_lowercase() || character == '-'));
    words.filter(|word| word.starts_with("--") && word.ends_with(|last: char| last.is_ascii_lowercase())).collect()
}

#[test]
fn guide_lists_exactly_the_options_of_run() {
    let guide = include_str!("../../../../docs/guide.md");
    let (_, listed) = guide.split_once("\n### Choices\n").expect("no section of that name");
    let (listed, _) = listed.split_once("\n\n").expect("a table has an end");
    let help = run_to_end(&["run", "--help-all"], &[]);
    let (_, choices) = help.split_once("\nReconnecting:").unwrap();
    let (choices, _) = choices.split_once("\nMCP goes ").unwrap();
    // The help lists it among the options for servers at a URL.
    let mut offered = flags(choices);
    offered.insert("--connect-timeout");
    assert_eq!(flags(listed), offered);
}

#[test]
fn usage_error_starts_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let environment = &[("MENDLINE_DEMO_LEDGER", ledger.to_str().unwrap())];
    let server = ["--", MENDLINE, "demo-server"];
    for wrong in [&["--max-attempts", "0"][..], &["--call-timeout", "2m", "--total-timeout", "1m"]] {
        let printed = run_to_end(&[&["run"], wrong, &server].concat(), environment);
        assert!(printed.starts_with("exit code 2\n"), "{printed}");
    }
    assert!(!ledger.exists(), "a server was started");
    let printed = run_to_end(&[&["run"][..], &server].concat(), environment);
    assert!(ledger.exists(), "a ledger shows that a server was started: {printed}");
}

#[test]
fn command_that_is_no_server_exits_with_1() {
    let mut bridge = Bridge::start(Setup { command: Some(&["false"]), ..Setup::default() });
    eventually("its end is seen", SOON, || bridge.log().contains("exit code 1"));
    bridge.stdin = None;
    assert_eq!(bridge.exit_code(SOON), Some(1));
}

#[test]
fn i12_password_in_url_is_rejected_and_not_shown() {
    let printed = run_to_end(&["run", "https://me:s3cret@mcp.example.com/mcp"], &[]);
    assert!(printed.starts_with("exit code 2\n") && !printed.contains("s3cret"), "{printed}");
}

#[test]
fn logs_go_to_stderr_unless_disabled_by_variable() {
    let loud = run_to_end(&["run", "--", MENDLINE, "demo-server"], &[("MENDLINE_LOG", "debug")]);
    assert!(loud.contains("--- stdout\n--- stderr\n2") && loud.contains("DEBUG"), "{loud}");
    let quiet = run_to_end(&["run", "--", MENDLINE, "demo-server"], &[("MENDLINE_LOG", "off")]);
    assert!(quiet.ends_with("--- stdout\n--- stderr\n"), "{quiet}");
}
