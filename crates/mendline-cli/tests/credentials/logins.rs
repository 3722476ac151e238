//! `mendline login` and `mendline logout`.

use std::io::Write;
use std::process::Stdio;

use mendline_faults::{AuthorizationSettings, Consent, Refresh};
use serde_json::json;

use crate::browser::visit;
use crate::client::{SOON, eventually, failure};
use crate::stage::{NOTES, Stage, finish};

#[test]
fn login_in_the_browser_makes_calls_work() {
    let stage = Stage::new();
    let ended = stage.log_in();
    assert!(ended.stdout.contains("Logged in to notes as ada@example.com"), "{ended:?}");
    assert!(ended.stdout.contains("The login renews itself."), "{ended:?}");
    let mut client = stage.client(&[]);
    assert_eq!(client.initialize(), "mendline-faults");
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!((result["content"][0]["text"].as_str(), stage.executions("k")), (Some("wrote k"), 1), "{result}");
    let counts = stage.authorization.counts();
    assert_eq!((counts.logins, counts.registrations, counts.refused_token), (1, 1, 0), "{counts:?}");
}

#[test]
fn login_by_pasted_address_needs_no_browser() {
    let stage = Stage::new();
    let mut command = stage.command(&["login", "--no-browser", NOTES]);
    let mut login = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = crate::client::lines_of(login.stderr.take().unwrap()).into_iter();
    let address = lines.find(|line| line.trim().starts_with("http://")).unwrap();
    // The person's browser is elsewhere: it ends at an address that it cannot reach.
    let page = location_of(address.trim());
    login.stdin.as_mut().unwrap().write_all(format!("{page}\n").as_bytes()).unwrap();
    let ended = finish(login);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(stage.browser.opened().is_empty(), "no browser was opened");
}

/// Returns the address to which the authorization page redirects.
fn location_of(address: &str) -> String {
    use std::io::Read;
    let rest = address.strip_prefix("http://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(authority).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line =
        answer.lines().find(|line| line.to_lowercase().starts_with("location:")).unwrap_or_else(|| panic!("{answer}"));
    line.split_once(':').unwrap().1.trim().to_owned()
}

#[test]
fn login_by_device_code_is_approved_elsewhere() {
    let stage = Stage::new();
    let ended = finish({
        let mut command = stage.command(&["login", "--device", NOTES]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("enter the code"), "{ended:?}");
}

#[test]
fn denied_login_stores_nothing() {
    let stage = Stage::with(AuthorizationSettings { consent: Consent::Denied, ..AuthorizationSettings::default() });
    let login = stage.start_login(&[NOTES]);
    stage.browser.follow(0);
    let ended = finish(login);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("cannot log in to notes") && ended.stderr.contains("access_denied"), "{ended:?}");
    assert_eq!(stage.run(&["token", NOTES]).code, Some(6));
}

#[test]
fn login_without_refresh_token_says_when_it_ends() {
    let settings = AuthorizationSettings { refresh: Refresh::Absent, ..AuthorizationSettings::default() };
    let stage = Stage::with(settings);
    let ended = stage.log_in();
    assert!(ended.stdout.contains("this login ends in"), "{ended:?}");
}

#[test]
fn provider_without_registration_is_explained() {
    let stage = Stage::with(AuthorizationSettings { registration: false, ..AuthorizationSettings::default() });
    let ended = finish(stage.start_login(&[NOTES]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("auth.clientId"), "{ended:?}");
    let doctor = stage.run(&["doctor", NOTES]);
    assert!(doctor.stdout.contains("this server registers no clients"), "{doctor:?}");
    stage.configure_auth(&json!({ "type": "oauth", "clientId": "machine" }));
    assert!(!stage.run(&["doctor", NOTES]).stdout.contains("registers no clients"));
}

#[test]
fn account_that_the_provider_does_not_say_is_not_verified() {
    let stage = Stage::with(AuthorizationSettings { user: String::new(), ..AuthorizationSettings::default() });
    stage.configure_auth(&json!({ "type": "oauth", "account": "ada@example.com" }));
    let ended = stage.log_in();
    assert!(ended.stdout.contains("it is not verified that this is ada@example.com"), "{ended:?}");
    assert!(!ended.stdout.contains("as ada@example.com"), "{ended:?}");
    let status = stage.run(&["status"]);
    assert!(status.stdout.contains("account ada@example.com is not verified"), "{status:?}");
}

#[test]
fn provider_without_pkce_is_refused_unless_its_endpoints_are_configured() {
    let stage = Stage::with(AuthorizationSettings { lists_pkce: false, ..AuthorizationSettings::default() });
    let ended = finish(stage.start_login(&[NOTES]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("PKCE") && ended.stderr.contains("auth.tokenEndpoint"), "{ended:?}");
    assert!(stage.browser.opened().is_empty());
    let issuer = stage.authorization.issuer();
    stage.configure_auth(&json!({
        "type": "oauth",
        "clientId": "machine",
        "clientSecret": "secret-canary-machine",
        "authorizationEndpoint": format!("{issuer}/authorize"),
        "tokenEndpoint": format!("{issuer}/token"),
    }));
    stage.log_in();
}

#[test]
fn running_client_uses_a_later_login_without_restart() {
    let stage = Stage::new();
    let mut client = stage.client(&[]);
    let handshake = stage.begin(&mut client);
    assert!(handshake["instructions"].as_str().unwrap().contains("mendline login notes"), "{handshake}");
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("`mendline login notes`"), "{result}");
    let status = stage.run(&["status", NOTES]);
    assert!(status.stdout.contains("mendline login notes"), "{status:?}");
    stage.log_in();
    stage.until_calls_work(&mut client);
    let counts = stage.authorization.counts();
    assert!(counts.logins == 1 && counts.refused() < 20, "{counts:?}");
}

#[test]
fn running_client_opens_the_browser_once() {
    let stage = Stage::new();
    let mut client = stage.client_with_browser();
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let page = stage.browser.follow(0);
    assert!(!page.is_empty());
    client.answer("init");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.until_calls_work(&mut client);
    // A login that ends soon after must not open another tab.
    stage.authorization.revoke_all();
    let result = client.result("z", "create_note", &json!({ "key": "z" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    assert_eq!(stage.browser.opened().len(), 1);
}

#[test]
fn logout_revokes_and_deletes_the_login() {
    let stage = Stage::new();
    stage.log_in();
    assert!(stage.run(&["status"]).stdout.contains("ada@example.com"));
    let ended = stage.run(&["logout", NOTES]);
    assert!(ended.code == Some(0) && ended.stdout.contains("revoked and deleted"), "{ended:?}");
    assert!(stage.authorization.counts().revocations >= 1);
    assert_eq!(stage.run(&["token", NOTES]).code, Some(6));
    let again = stage.run(&["logout", NOTES]);
    assert!(again.code == Some(3) && again.stdout.contains("There is no login"), "{again:?}");
    assert_eq!(stage.run(&["logout", "--all"]).code, Some(3));
}

#[test]
fn login_works_for_an_entry_of_a_client() {
    let stage = Stage::new();
    stage.configure(&json!({}));
    std::fs::create_dir_all(stage.path().join(".cursor")).unwrap();
    let entry = json!({ "mcpServers": { "theirs": {
        "command": "mendline", "args": ["run", "--name", "theirs", stage.server.url()] } } });
    std::fs::write(stage.path().join(".cursor/mcp.json"), entry.to_string()).unwrap();
    let login = stage.start_login(&["theirs"]);
    stage.browser.follow(0);
    let ended = finish(login);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let url = stage.server.url();
    assert_eq!(stage.run(&["token", &url]).code, Some(0), "the login belongs to the URL");
}

#[test]
fn callback_of_another_page_does_not_end_a_login() {
    let stage = Stage::new();
    let login = stage.start_login(&[NOTES]);
    eventually("the browser opens", SOON, || !stage.browser.opened().is_empty());
    let address = stage.browser.opened()[0].clone();
    let redirect = address.split("redirect_uri=").nth(1).unwrap().split('&').next().unwrap();
    let redirect = redirect.replace("%3A", ":").replace("%2F", "/").replace("%3a", ":").replace("%2f", "/");
    visit(&format!("{redirect}?code=canary-foreign&state=wrong"));
    visit(&address);
    let ended = finish(login);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn login_on_another_machine_opens_the_browser_here() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    // A program in place of ssh: it runs the command as the remote shell would.
    let bin = stage.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let there = stage.path().join("there");
    let ssh = format!(
        "#!/bin/sh\necho \"$@\" > '{}'\nfor command in \"$@\"; do :; done\nexport MENDLINE_STATE_DIR='{}'\nunset BROWSER\nexec sh -c \"$command\"\n",
        stage.path().join("words").display(),
        there.display(),
    );
    std::fs::write(bin.join("ssh"), ssh).unwrap();
    std::fs::set_permissions(bin.join("ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(crate::client::MENDLINE, bin.join("mendline")).unwrap();
    let mut command = stage.command(&["login", "--on", "me@box", NOTES]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("BROWSER", &stage.browser.program);
    let login = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    stage.browser.follow(0);
    let ended = finish(login);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let words = std::fs::read_to_string(stage.path().join("words")).unwrap();
    assert!(words.contains("-L ") && words.contains("-- me@box mendline login --no-browser"), "{words}");
    assert!(there.join("credentials").exists(), "the login belongs to the other machine");
    assert_eq!(stage.run(&["token", NOTES]).code, Some(6), "and not to this one");
}
