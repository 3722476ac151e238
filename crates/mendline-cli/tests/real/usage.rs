//! What the command line says: help, complaints and exit codes, reviewed as text.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::support::{Bridge, MENDLINE, SOON, Setup, eventually};

/// Everything that a command said, and its exit code.
fn said(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let state = tempfile::tempdir().unwrap();
    let output = Command::new(MENDLINE)
        .args(arguments)
        .env("MENDLINE_STATE_DIR", state.path())
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

/// Never dialed: what is wrong beside it is said first.
const ADDRESS: &str = "https://mcp.example.com/mcp";

macro_rules! story {
    ($name:ident, $arguments:expr) => {
        story!($name, $arguments, &[]);
    };
    ($name:ident, $arguments:expr, $environment:expr) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), said(&$arguments, $environment));
        }
    };
}

story!(help, ["--help"]);
story!(check_without_a_file, ["check"]);
story!(check_of_a_file_that_is_not_there, ["check", "/nonexistent/x.json"]);
story!(a_configuration_for_a_command, ["run", "--config", "x.json", "--", "true"]);
story!(logs_since_something_that_is_no_time, ["logs", "--since", "yesterday"]);
story!(logs_of_a_call_that_is_none, ["logs", "--call", "mine"]);
story!(logs_of_no_level_at_all, ["logs", "--level", "off"]);
story!(log_files_of_a_level_that_is_none_in_the_environment, ["run", "--", "true"], &[("MENDLINE_LOG_FILES", "loud")]);
story!(help_all_of_run, ["run", "--help-all"]);
story!(version, ["--version"]);
story!(nothing_at_all, []);
story!(a_mistyped_command, ["chek"]);
story!(a_url_in_place_of_a_command, ["https://mcp.example.com/mcp"]);
story!(a_server_in_place_of_a_command, ["uvx", "notes-server"]);
story!(completions_without_a_shell, ["completions"]);
story!(completions_for_a_shell_that_is_none, ["completions", "tcsh"]);
story!(the_manual_page_of_a_command_that_is_none, ["man", "fly"]);
story!(the_manual_page_of_check, ["man", "check"]);
story!(run_without_a_command, ["run"]);
story!(run_without_the_dashes, ["run", "notes-server"]);
story!(a_timeout_without_a_unit, ["run", "--call-timeout", "5", "--", "true"]);
story!(a_timeout_of_nothing, ["run", "--call-timeout", "0s", "--", "true"]);
story!(a_name_with_two_underscores, ["run", "--name", "a__b", "--", "true"]);
story!(a_name_with_odd_characters, ["run", "--name", "my server", "--", "true"]);
story!(a_log_level_that_is_none, ["run", "--log-level", "loud", "--", "true"]);
story!(a_log_level_that_is_none_in_the_environment, ["run", "--", "true"], &[("MENDLINE_LOG", "loud")]);
story!(an_unknown_flag, ["run", "--fast", "--", "true"]);
story!(a_url_of_another_scheme, ["run", "ftp://mcp.example.com/mcp"]);
story!(a_url_without_a_host, ["run", "http:///mcp"]);
story!(a_url_with_credentials, ["run", "https://me@mcp.example.com/mcp?key=s3cret"]);
story!(a_url_and_a_command, ["run", "https://mcp.example.com/mcp", "--", "true"]);
story!(a_header_without_a_colon, ["run", "--header", "Authorization Bearer s3cret", ADDRESS]);
story!(a_header_with_an_odd_name, ["run", "--header", "My Key: s3cret", ADDRESS]);
story!(a_header_with_an_odd_value, ["run", "--header", "X-Key: s3cret\r\nX-More: s3cret", ADDRESS]);
story!(a_header_that_frames_messages, ["run", "--header", "Transfer-Encoding: chunked", ADDRESS]);
story!(a_header_for_a_command, ["run", "--header", "X-Key: s3cret", "--", "true"]);
story!(a_header_in_a_variable_without_a_variable, ["run", "--header-env", "X-Key", ADDRESS]);
story!(a_header_in_a_variable_that_is_not_set, ["run", "--header-env", "X-Key=MENDLINE_TEST_UNSET", ADDRESS]);
story!(a_url_in_a_variable_that_is_not_set, ["run", "--url-env", "MENDLINE_TEST_UNSET"]);
story!(a_url_in_a_variable_that_is_none, ["run", "--url-env", "HIDDEN"], &[("HIDDEN", "mcp.example.com?key=s3cret")]);
story!(a_url_with_a_variable_that_is_none, ["run", "${HIDDEN}/mcp"], &[("HIDDEN", "s3cret:")]);
story!(a_url_and_one_in_a_variable, ["run", "--url-env", "HIDDEN", ADDRESS]);
story!(a_variable_that_is_not_set, ["run", "--header", "X-Key: ${MENDLINE_TEST_UNSET}", ADDRESS]);
story!(a_variable_without_its_end, ["run", "--header", "X-Key: s3cret ${TOKEN", ADDRESS]);
story!(a_transport_that_is_none, ["run", "--transport", "carrier-pigeon", ADDRESS]);
story!(a_connect_timeout_of_nothing, ["run", "--connect-timeout", "0s", ADDRESS]);
story!(retries_below_no_end, ["run", "--max-retries", "-2", "--", "true"]);
story!(a_multiplier_that_shrinks, ["run", "--backoff-multiplier", "0.5", "--", "true"]);
story!(a_multiplier_without_end, ["run", "--backoff-multiplier", "inf", "--", "true"]);
story!(a_keep_alive_that_is_a_storm, ["run", "--keep-alive", "10ms", "--", "true"]);
story!(too_many_attempts, ["run", "--max-attempts", "11", "--", "true"]);
story!(an_effect_that_is_none, ["run", "--effect", "search=safe", "--", "true"]);
story!(an_effect_without_a_tool, ["run", "--effect", "read", "--", "true"]);
story!(two_effects_of_one_tool, ["run", "--effect", "a=read", "--effect", "a=unsafe", "--", "true"]);
story!(nothing_in_flight, ["run", "--max-in-flight", "0", "--", "true"]);
story!(no_reconnect_and_retries, ["run", "--no-reconnect", "--max-retries", "5", "--", "true"]);
story!(no_retries_and_a_delay, ["run", "--max-retries", "0", "--max-retry-delay", "5s", "--", "true"]);
story!(a_first_delay_beyond_the_longest, ["run", "--initial-retry-delay", "1m", "--", "true"]);
story!(no_keep_alive_and_its_timeout, ["run", "--keep-alive", "off", "--keep-alive-timeout", "3s", "--", "true"]);
story!(a_call_longer_than_its_total, ["run", "--call-timeout", "2m", "--total-timeout", "1m", "--", "true"]);
story!(resumptions_of_a_command, ["run", "--resume-attempts", "3", "--", "true"]);

/// The commands that the first page names.
pub(crate) fn commands() -> Vec<String> {
    let page = said(&["--help"], &[]);
    let (_, groups) = page.split_once("\nConnect:\n").unwrap();
    let (groups, _) = groups.split_once("\nOptions:").unwrap();
    let rows = groups.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    rows.map(|row| row.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn every_command_is_on_the_first_page_and_its_help_is_as_it_was_reviewed() {
    let commands = commands();
    assert!(commands.len() > 7 && commands.contains(&"run".to_owned()), "{commands:?}");
    for command in commands {
        let help = said(&[&command, "--help"], &[]);
        assert!(help.starts_with("exit code 0\n"), "{help}");
        insta::assert_snapshot!(format!("help_of_{command}"), help);
    }
}

/// The flags that a text names.
fn flags(text: &str) -> BTreeSet<&str> {
    let words = text.split(|character: char| !(character.is_ascii_lowercase() || character == '-'));
    words.filter(|word| word.starts_with("--") && word.ends_with(|last: char| last.is_ascii_lowercase())).collect()
}

#[test]
fn the_guide_lists_every_choice_and_no_other() {
    let guide = include_str!("../../../../docs/guide.md");
    let (_, listed) = guide.split_once("\n### Choices\n").expect("no section of that name");
    let (listed, _) = listed.split_once("\n\n").expect("a table has an end");
    let help = said(&["run", "--help-all"], &[]);
    let (_, choices) = help.split_once("\nReconnecting:").unwrap();
    let (choices, _) = choices.split_once("\nMCP goes ").unwrap();
    // It stands among the options for servers at a URL, and is one all the same.
    let mut offered = flags(choices);
    offered.insert("--connect-timeout");
    assert_eq!(flags(listed), offered);
}

#[test]
fn a_usage_that_is_wrong_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let environment = &[("MENDLINE_DEMO_LEDGER", ledger.to_str().unwrap())];
    let server = ["--", MENDLINE, "demo-server"];
    for wrong in [&["--max-attempts", "0"][..], &["--call-timeout", "2m", "--total-timeout", "1m"]] {
        let said = said(&[&["run"], wrong, &server].concat(), environment);
        assert!(said.starts_with("exit code 2\n"), "{said}");
    }
    assert!(!ledger.exists(), "a server was started");
    let said = said(&[&["run"][..], &server].concat(), environment);
    assert!(ledger.exists(), "a ledger shows that a server was started: {said}");
}

#[test]
fn a_server_that_is_no_server_is_a_negative_result() {
    let mut bridge = Bridge::start(Setup { command: Some(&["false"]), ..Setup::default() });
    eventually("its end is seen", SOON, || bridge.log().contains("exit code 1"));
    bridge.stdin = None;
    assert_eq!(bridge.exit_code(SOON), Some(1));
}

#[test]
fn i12_a_password_in_a_url_is_refused_and_not_shown() {
    let said = said(&["run", "https://me:s3cret@mcp.example.com/mcp"], &[]);
    assert!(said.starts_with("exit code 2\n") && !said.contains("s3cret"), "{said}");
}

#[test]
fn logs_go_to_stderr_and_can_be_turned_off_by_the_environment() {
    let loud = said(&["run", "--", MENDLINE, "demo-server"], &[("MENDLINE_LOG", "debug")]);
    assert!(loud.contains("--- stdout\n--- stderr\n2") && loud.contains("DEBUG"), "{loud}");
    let quiet = said(&["run", "--", MENDLINE, "demo-server"], &[("MENDLINE_LOG", "off")]);
    assert!(quiet.ends_with("--- stdout\n--- stderr\n"), "{quiet}");
}
