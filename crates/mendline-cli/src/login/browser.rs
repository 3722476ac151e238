//! The browser of the person at this machine.

use std::ffi::OsString;
use std::fmt;
use std::process::{Command, Stdio};

/// The environment variable with the programs of the person, separated by colons; `%s` is the address.
const BROWSER: &str = "BROWSER";

/// Programs that open the browser of a desktop, in this order.
const OPENERS: [&str; 4] = ["xdg-open", "wslview", "sensible-browser", "x-www-browser"];

/// Variables of a desktop session.
const DISPLAYS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// The reason why no browser can be opened for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBrowser {
    /// The person is at another machine.
    Ssh,
    /// No person is there.
    Automation,
    /// There is no desktop session.
    NoDisplay,
}

impl fmt::Display for NoBrowser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoBrowser::Ssh => "this is an ssh session, so no browser is opened here",
            NoBrowser::Automation => "CI is set, so no browser is opened",
            NoBrowser::NoDisplay => "there is no display here, so no browser is opened",
        })
    }
}

/// Returns whether a browser can be opened for a person at this machine.
pub(crate) fn check(variable: impl Fn(&str) -> Option<OsString>) -> Result<(), NoBrowser> {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if is_set("CI") {
        Err(NoBrowser::Automation)
    } else if ["SSH_CONNECTION", "SSH_TTY"].into_iter().any(is_set) {
        Err(NoBrowser::Ssh)
    } else if is_set(BROWSER) || DISPLAYS.into_iter().any(is_set) {
        Ok(())
    } else {
        Err(NoBrowser::NoDisplay)
    }
}

/// Opens the address in a browser. Returns whether a program was started.
pub(crate) fn open(url: &str) -> bool {
    commands(std::env::var(BROWSER).ok().as_deref(), url).into_iter().any(|words| start(&words))
}

/// Returns the command lines to try.
fn commands(browser: Option<&str>, url: &str) -> Vec<Vec<String>> {
    let named = browser.unwrap_or_default().split(':').filter(|words| !words.trim().is_empty()).map(|words| {
        let has_place = words.contains("%s");
        let mut words: Vec<String> = words.split_whitespace().map(|word| word.replace("%s", url)).collect();
        if !has_place {
            words.push(url.to_owned());
        }
        words
    });
    named.chain(OPENERS.map(|program| vec![program.to_owned(), url.to_owned()])).collect()
}

fn start(words: &[String]) -> bool {
    let [program, arguments @ ..] = words else { return false };
    let started =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = started else { return false };
    // A thread reaps it, because the browser may run for as long as the person uses it.
    std::thread::spawn(move || child.wait());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(set: &[&str]) -> Result<(), NoBrowser> {
        check(|name| set.contains(&name).then(|| OsString::from("1")))
    }

    #[test]
    fn browser_opens_only_for_a_person_at_this_machine() {
        assert_eq!(checked(&["DISPLAY"]), Ok(()));
        assert_eq!(checked(&["WAYLAND_DISPLAY"]), Ok(()));
        assert_eq!(checked(&["BROWSER"]), Ok(()));
        assert_eq!(checked(&[]), Err(NoBrowser::NoDisplay));
        assert_eq!(checked(&["DISPLAY", "SSH_CONNECTION"]), Err(NoBrowser::Ssh));
        assert_eq!(checked(&["BROWSER", "CI"]), Err(NoBrowser::Automation));
    }

    #[test]
    fn browser_of_the_person_comes_first() {
        let url = "http://x/?a=1";
        let words = commands(Some("firefox --new-tab %s:w3m"), url);
        assert_eq!(words[0], ["firefox", "--new-tab", url]);
        assert_eq!(words[1], ["w3m", url]);
        assert_eq!(commands(None, url)[0], ["xdg-open", url]);
    }
}
