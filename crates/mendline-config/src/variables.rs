//! Expansion of `${VAR}` and `${VAR:-default}`.
//!
//! Secrets belong in the environment and not on a command line, where every process list shows them. A header may
//! therefore name a variable. Its value is inserted once and not expanded again. An unset variable is an error, unless
//! it has a default; `$VAR` without braces is not expanded.
//!
//! The variables of editors have the same meaning here as far as possible: `${env:VAR}` is an environment variable,
//! `${userHome}` the home directory, `${/}` and `${pathSeparator}` a slash, and `${workspaceFolder}` the workspace of
//! the editor file. `${input:…}` requires a prompt, which Mendline does not have.

use std::fmt;

/// The error of an expansion. It never shows the value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableError {
    /// The message.
    pub what: String,
    /// The correction.
    pub help: String,
    /// The text is valid, but the variable is not set.
    pub is_unset: bool,
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.help)
    }
}

impl std::error::Error for VariableError {}

/// Expands the variables in a text. `lookup` is the environment.
pub fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, VariableError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        expanded.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let Some(end) = inside.find('}') else {
            // The text is not shown, because it may be a secret.
            let (what, help) = ("`${` has no `}`".to_owned(), "write `${VAR}`".to_owned());
            return Err(VariableError { what, help, is_unset: false });
        };
        let (name, default) = match inside[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inside[..end], None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        match (value(name, &lookup)?.filter(|value| !value.is_empty() || default.is_none()), default) {
            (Some(value), _) => expanded.push_str(&value),
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => {
                let (what, help) = match is_plain_variable_name(name) {
                    true => {
                        (format!("the variable {name} is not set"), format!("set it, or write `${{{name}:-default}}`"))
                    }
                    // The text between the braces may be the secret itself.
                    false => (
                        "the variable that `${…}` names is not set".to_owned(),
                        "set it, or write `${VAR:-default}`; its name is not shown, it may be a secret".to_owned(),
                    ),
                };
                return Err(VariableError { what, help, is_unset: true });
            }
        }
        rest = &inside[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn value(name: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<Option<String>, VariableError> {
    if matches!(name, "/" | "pathSeparator") {
        return Ok(Some(std::path::MAIN_SEPARATOR.to_string()));
    }
    if name.starts_with("input:") {
        let what = "`${input:…}` prompts the user, which Mendline cannot do".to_owned();
        let help = "set an environment variable and write `${VAR}`".to_owned();
        return Err(VariableError { what, help, is_unset: false });
    }
    if !is_variable_name(name) {
        let what = "`${…}` does not name a variable".to_owned();
        let help = "a name is made of letters, digits and `_`".to_owned();
        return Err(VariableError { what, help, is_unset: false });
    }
    Ok(lookup(name))
}

/// Returns whether a text is a valid variable name.
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns whether a text is certainly a variable name: upper case words joined by `_`, none of them long, the first
/// one without digits. Tokens of services do not look like this, so it may be shown.
pub fn is_plain_variable_name(name: &str) -> bool {
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let first = name.split('_').find(|word| !word.is_empty()).unwrap_or_default();
    name.len() <= 64
        && name.bytes().all(is_capital)
        && name.split('_').all(|word| word.len() <= 16)
        && (1..=12).contains(&first.len())
        && first.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_variable_is_named_only_if_it_is_surely_one() {
        for name in ["TOKEN", "GITHUB_TOKEN", "MENDLINE_TEST_UNSET", "_KEY", "A_1"] {
            assert!(is_plain_variable_name(name), "{name}");
        }
        for name in ["", "sk_live_1", "AKIAIOSFODNN7EXAMPLE", "JBSWY3DPEHPK3PXP", "ghp_ABCDEF", "token", "A-B", "1A"] {
            assert!(!is_plain_variable_name(name), "{name}");
        }
        for text in ["${sk-S3cret}", "${S3cret}", "${input:S3cret}", "${S3cret", "a${S3cret:-x"] {
            let fault = expand(text, |_| None).unwrap_err().to_string();
            assert!(!fault.contains("S3cret"), "{text}: {fault}");
        }
    }

    fn lookup(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("s3cret".into()),
            "NESTED" => Some("${TOKEN}".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_and_defaults_are_expanded_once() {
        for (text, expanded) in [
            ("Bearer ${TOKEN}", "Bearer s3cret"),
            ("${NOPE:-anonymous}/${TOKEN}", "anonymous/s3cret"),
            ("${EMPTY:-x}${EMPTY}", "x"),
            ("$TOKEN and $ and {TOKEN}", "$TOKEN and $ and {TOKEN}"),
            ("${NESTED}", "${TOKEN}"),
            ("${env:TOKEN}${env:NOPE:-!}", "s3cret!"),
            ("a${/}b${pathSeparator}", "a/b/"),
        ] {
            assert_eq!(expand(text, lookup).unwrap(), expanded, "{text}");
        }
    }

    #[test]
    fn unset_variable_is_named_and_no_value_is_shown() {
        let unset = expand("${NOPE}", lookup).unwrap_err();
        assert!(unset.is_unset && unset.to_string().contains("NOPE is not set"));
        let error = expand("key ${TOKEN} ${oops", lookup).unwrap_err().to_string();
        assert!(error.contains("has no") && !error.contains("s3cret"), "{error}");
        assert!(expand("${a b}", lookup).is_err());
        assert!(expand("${input:key}", lookup).unwrap_err().what.contains("cannot do"));
    }
}
