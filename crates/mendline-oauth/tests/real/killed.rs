//! Processes that are killed at each step of a renewal.
//!
//! The test program starts itself: `renews_in_a_process_of_its_own` is the child, and does nothing without the variable.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mendline_faults::{AuthorizationSettings, TokenFault};
use mendline_oauth::login::login_of;
use mendline_oauth::{OAuthError, Settings, token};

use crate::stage::{Stage, oauth, run};

const STATE: &str = "MENDLINE_TEST_RENEWAL_STATE";
const SERVER: &str = "MENDLINE_TEST_RENEWAL_SERVER";

#[test]
fn renews_in_a_process_of_its_own() {
    let (Some(state), Ok(server)) = (std::env::var_os(STATE), std::env::var(SERVER)) else { return };
    run(token(&oauth(Path::new(&state)), &Settings::new(server))).unwrap();
}

/// Starts a process that renews the login.
fn renewing(stage: &Stage) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::renews_in_a_process_of_its_own"])
        .env(STATE, stage.state.path())
        .env(SERVER, stage.server.url())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A login whose token is about to expire, so that each process renews it.
async fn stage() -> Stage {
    let stage =
        Stage::start(AuthorizationSettings { access_seconds: 3600, expires_in: Some(1), ..Default::default() }).await;
    stage.login().await.unwrap();
    until_expired(&stage).await;
    stage
}

async fn until_expired(stage: &Stage) {
    while login_of(stage.oauth().store(), &stage.settings()).unwrap().unwrap().expires_at.unwrap()
        > std::time::SystemTime::now()
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the server meets the fault of the token endpoint, then kills the process.
async fn kill_at_fault(stage: &Stage, fault: TokenFault) {
    let faults = stage.authorization.counts().token_faults;
    stage.authorization.fail_token(fault, 1);
    let mut child = renewing(stage);
    stage.authorization.until(Duration::from_secs(60), |counts| counts.token_faults > faults).await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a76_process_killed_before_the_rotation_loses_nothing() {
    run(async {
        let stage = stage().await;
        for _ in 0..3 {
            kill_at_fault(&stage, TokenFault::Hang).await;
        }
        token(&stage.oauth(), &stage.settings()).await.unwrap();
        let counts = stage.authorization.counts();
        assert_eq!((counts.logins, counts.refreshes, counts.reuses), (1, 1, 0));
    });
}

#[test]
fn a76_process_killed_between_rotation_and_receipt_ends_the_login_once() {
    run(async {
        let stage = stage().await;
        kill_at_fault(&stage, TokenFault::HangAfterProcessing).await;
        let error = token(&stage.oauth(), &stage.settings()).await.unwrap_err();
        assert!(matches!(error, OAuthError::LoginEnded { .. }), "{error}");
        let requests = stage.authorization.counts().token_requests;
        assert!(token(&stage.oauth(), &stage.settings()).await.is_err());
        assert_eq!(stage.authorization.counts().token_requests, requests, "said once, and not tried again");
        stage.login().await.unwrap();
        assert!(token(&stage.oauth(), &stage.settings()).await.is_ok());
    });
}

#[test]
fn a76_process_killed_after_the_answer_leaves_a_readable_store() {
    run(async {
        let stage = stage().await;
        // The moments between the answer and the end of the process: the write, the rename, the release of the lock.
        for delay in [0, 1, 2, 4, 8, 16, 32] {
            until_expired(&stage).await;
            let refreshes = stage.authorization.counts().refreshes;
            let mut child = renewing(&stage);
            stage.authorization.until(Duration::from_secs(60), |counts| counts.refreshes > refreshes).await.unwrap();
            tokio::time::sleep(Duration::from_millis(delay)).await;
            let _ = child.kill();
            child.wait().unwrap();
            let store = stage.oauth();
            assert!(store.store().damaged().is_empty());
            match token(&stage.oauth(), &stage.settings()).await {
                Ok(_) => {}
                // The process died before its write; only a person can log in again.
                Err(OAuthError::LoginEnded { .. }) => {
                    stage.login().await.unwrap();
                }
                Err(error) => panic!("after {delay} ms: {error}"),
            }
        }
    });
}
