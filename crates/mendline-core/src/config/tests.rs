use super::*;

#[test]
fn unset_reconnect_options_keep_their_defaults() {
    assert_eq!(Reconnect::from(AutoReconnect::default()), Reconnect::default());
}

#[test]
fn reconnect_options_become_a_policy() {
    let options = AutoReconnect {
        enabled: Some(true),
        max_retries: Some(Some(10)),
        initial_retry_delay: Some(Duration::from_secs(2)),
        max_retry_delay: Some(Duration::from_secs(30)),
        backoff_multiplier: Some(1.5),
        silent: Some(true),
    };
    let policy = Reconnect::from(options);
    assert_eq!((policy.first, policy.initial, policy.multiplier), (None, Duration::from_secs(2), 1.5));
    assert_eq!(policy.attempts, 10, "exactly that many");
    // 2, 3, 4.5, 6.75, 10.125, 15.1875, 22.78 and three times 30 s, half of which is jitter.
    assert_eq!(policy.patience.as_millis(), 77_171);
    assert_eq!((policy.cap_idle, policy.cap_called), (Duration::from_secs(30), defaults::RECONNECT_CAP_CALLED));
}

#[test]
fn zero_retries_equals_disabled_and_minus_one_is_unlimited() {
    let never = Reconnect::from(AutoReconnect { max_retries: Some(Some(0)), ..AutoReconnect::default() });
    let off =
        Reconnect::from(AutoReconnect { enabled: Some(false), max_retries: Some(Some(5)), ..AutoReconnect::default() });
    assert!(!never.is_by_itself() && !off.is_by_itself());
    let endless = Reconnect::from(AutoReconnect { max_retries: Some(None), ..AutoReconnect::default() });
    assert_eq!(endless.attempts, u32::MAX);
    let short = AutoReconnect { max_retry_delay: Some(Duration::from_secs(1)), ..AutoReconnect::default() };
    assert_eq!(Reconnect::from(short).cap_called, Duration::from_secs(1), "the cap applies to waiting calls too");
}
