//! `${VAR}` and `${VAR:-default}` in what people write.
//!
//! Secrets belong into the environment and not onto a command line, where every process list shows them. So a header may
//! name a variable, and what it holds is put in here, once: what comes out of a variable is not looked at again. A variable
//! that is not set is a mistake and is said, unless a default is written beside it; `$VAR` without braces stays as it is.

/// Puts the values of variables in. `lookup` is the environment.
pub(crate) fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        expanded.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let Some(end) = inside.find('}') else {
            return Err(format!("`${{` has no `}}` in {:?}", shown(text)));
        };
        let (name, default) = match inside[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inside[..end], None),
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("`${{{name}}}` does not name a variable"));
        }
        match (lookup(name).filter(|value| !value.is_empty() || default.is_none()), default) {
            (Some(value), _) => expanded.push_str(&value),
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => {
                return Err(format!("the variable {name} is not set; set it, or write `${{{name}:-default}}`"));
            }
        }
        rest = &inside[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The beginning of a text that may hold a secret further on.
fn shown(text: &str) -> String {
    text.chars().take_while(|c| *c != '$').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("s3cret".into()),
            "NESTED" => Some("${TOKEN}".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_and_their_defaults_are_put_in_once() {
        for (text, expanded) in [
            ("Bearer ${TOKEN}", "Bearer s3cret"),
            ("${NOPE:-anonymous}/${TOKEN}", "anonymous/s3cret"),
            ("${EMPTY:-x}${EMPTY}", "x"),
            ("$TOKEN and $ and {TOKEN}", "$TOKEN and $ and {TOKEN}"),
            ("${NESTED}", "${TOKEN}"),
        ] {
            assert_eq!(expand(text, world).as_deref(), Ok(expanded), "{text}");
        }
    }

    #[test]
    fn a_variable_that_is_not_set_is_named_and_a_value_is_never_shown() {
        assert!(expand("${NOPE}", world).unwrap_err().contains("NOPE is not set"));
        let complaint = expand("key ${TOKEN} ${oops", world).unwrap_err();
        assert!(complaint.contains("has no") && !complaint.contains("s3cret"), "{complaint}");
        assert!(expand("${a b}", world).is_err());
    }
}
