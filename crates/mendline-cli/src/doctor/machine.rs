//! Findings about this machine: proxies, and the directories of Mendline.

use std::path::{Path, PathBuf};

use mendline::control::runtime_dir;
use mendline::os::control_socket::is_dead;
use mendline::os::files::{Exposure, can_write, exposure, is_socket};
use mendline::state::state_directory;
use mendline::transport::http::ProxyRules;

use super::report::Section;
use super::step::Step;
use super::versions;
use crate::status::logins;
use crate::untrusted_text::{counted, one_line};

/// The variables that send requests through a proxy, as they are usually written.
const VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Examines the machine.
pub(crate) fn examine(section: &mut Section) {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    versions::examine(&variable).into_iter().for_each(|step| section.add(step));
    proxies(&variable).into_iter().for_each(|step| section.add(step));
    let places = [
        ("state", state_directory(|name| std::env::var_os(name)).into_iter().collect()),
        ("runtime", runtime_dir::candidates(|name| std::env::var_os(name))),
    ];
    for (layer, candidates) in places {
        section.add(directory(layer, &candidates));
    }
    for trouble in logins::troubles() {
        let step = Step::warning("logins", one_line(&trouble));
        section.add(step.advice("Correct it, or log in again: mendline login NAME"));
    }
}

fn proxies(variable: &dyn Fn(&str) -> Option<String>) -> Vec<Step> {
    const LAYER: &str = "proxy";
    let spellings = |name: &str| [name.to_ascii_lowercase(), name.to_owned()];
    let set: Vec<String> =
        VARIABLES.iter().flat_map(|name| spellings(name)).filter(|name| variable(name).is_some()).collect();
    let pairs = set.iter().filter_map(|name| Some((name.as_str(), variable(name)?)));
    let mut steps = Vec::new();
    if let Err(fault) = ProxyRules::from_variables(pairs) {
        let step = Step::failed(LAYER, fault.to_string());
        steps.push(
            step.advice(format!("Change {} or unset it; no server at a URL can be reached like this", fault.variable)),
        );
    }
    for name in VARIABLES {
        let [lower, upper] = spellings(name).map(|name| variable(&name));
        if lower.is_some() && upper.is_some() && lower != upper {
            let words = format!("{} and {name} have different values", name.to_ascii_lowercase());
            steps.push(
                Step::warning(LAYER, words)
                    .advice("The lower-case one wins here; other programs may use the other one"),
            );
        }
    }
    if spellings("ALL_PROXY").iter().any(|name| variable(name).is_some()) {
        let words = "ALL_PROXY is set, which Mendline does not use";
        steps.push(
            Step::warning(LAYER, words)
                .advice("Set HTTPS_PROXY and HTTP_PROXY, if servers have to be reached through it"),
        );
    }
    if steps.is_empty() {
        steps.push(if set.is_empty() {
            Step::ok(LAYER, "no proxy variable is set")
        } else {
            Step::ok(LAYER, format!("{} set; each server shows whether it uses a proxy", set.join(", ")))
        });
    }
    // Names only: a value may hold a password.
    steps.into_iter().map(|step| step.fact("variables", set.clone())).collect()
}

/// Checks whether the existing directories are private to this user.
fn directory(layer: &'static str, candidates: &[PathBuf]) -> Step {
    let there: Vec<&PathBuf> = candidates.iter().filter(|path| path.symlink_metadata().is_ok()).collect();
    let Some(first) = there.first() else {
        return match candidates.first() {
            Some(place) => Step::ok(layer, format!("{} will be created when it is needed", place.display())),
            None => Step::warning(layer, "there is no directory for it: the home directory is unknown")
                .advice("Set HOME; without it nothing is kept between runs"),
        };
    };
    for place in &there {
        if let Some(step) = directory_problem(layer, place) {
            return step;
        }
    }
    let dead: usize = there.iter().map(|place| dead_sockets(place)).sum();
    let words = format!("{} is private", first.display());
    let step = match dead {
        0 => Step::ok(layer, words),
        count => Step::ok(
            layer,
            format!("{words}; {} of ended processes, removed at the next start", counted(count, "socket")),
        ),
    };
    step.fact("path", first.to_string_lossy().into_owned()).fact("deadSockets", dead)
}

/// Returns the problem of a directory that another user made or can read.
fn directory_problem(layer: &'static str, place: &Path) -> Option<Step> {
    let facts = place.symlink_metadata().ok()?;
    let shown = place.display();
    let step = match exposure(&facts) {
        _ if !facts.is_dir() => {
            let step = Step::failed(layer, format!("{shown} is in the way: it is not a directory"));
            step.advice(format!("Look at it, and remove it if it is not needed: ls -l {shown}"))
        }
        Some(Exposure::OtherOwner { uid }) => {
            let step = Step::failed(layer, format!("{shown} belongs to another user ({uid})"));
            step.advice(
                "Mendline does not trust it. It may have been made with sudo: give it back with chown, or remove it",
            )
        }
        Some(Exposure::OpenToOthers { mode }) => {
            let step = Step::warning(layer, format!("other users can read {shown} (mode {mode:03o})"));
            step.advice(format!("chmod 700 {shown}"))
        }
        None if !can_write(place) => {
            Step::warning(layer, format!("{shown} cannot be written to")).advice("Nothing is kept between runs")
        }
        None => return None,
    };
    Some(step.fact("path", place.to_string_lossy().into_owned()))
}

/// Counts the sockets without a listener.
fn dead_sockets(place: &Path) -> usize {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten().take(1_000);
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(is_socket));
    sockets.filter(|entry| is_dead(&entry.path())).count()
}

#[cfg(test)]
mod tests {
    use std::fs::{DirBuilder, Permissions};
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::doctor::step::Verdict;

    fn with(variables: &'static [(&str, &str)]) -> Vec<Step> {
        proxies(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn proxy_variables_are_named_and_their_values_are_not_shown() {
        assert_eq!(with(&[])[0].verdict, Verdict::Ok);
        let set = with(&[("HTTPS_PROXY", "http://me:s3cret@proxy.test:3128")]);
        assert_eq!((set.len(), set[0].verdict), (1, Verdict::Ok));
        assert!(!format!("{set:?}").contains("s3cret"));
    }

    #[test]
    fn invalid_or_contradicting_proxies_are_reported() {
        let broken = with(&[("HTTPS_PROXY", "socks5://me:s3cret@x:1")]);
        assert!(broken[0].verdict == Verdict::Failed && !format!("{broken:?}").contains("s3cret"), "{broken:?}");
        let both = with(&[("http_proxy", "http://a:1"), ("HTTP_PROXY", "http://b:1")]);
        assert_eq!(both[0].words, "http_proxy and HTTP_PROXY have different values");
        assert!(with(&[("all_proxy", "http://a:1")])[0].words.contains("ALL_PROXY"));
    }

    #[test]
    fn directory_is_private_or_its_problem_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("mendline");
        let look = || directory("state", std::slice::from_ref(&place));
        assert!(look().words.ends_with("will be created when it is needed"));
        DirBuilder::new().mode(0o700).create(&place).unwrap();
        assert!(look().words.ends_with("is private"));
        std::fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
        assert_eq!((look().verdict, look().advice.unwrap().starts_with("chmod 700 ")), (Verdict::Warning, true));
        std::fs::remove_dir(&place).unwrap();
        std::fs::write(&place, "").unwrap();
        assert!(look().words.ends_with("it is not a directory"));
    }

    #[test]
    fn sockets_without_listener_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(folder.path().join("dead")).unwrap());
        let _alive = UnixListener::bind(folder.path().join("alive")).unwrap();
        assert_eq!(dead_sockets(folder.path()), 1);
    }
}
