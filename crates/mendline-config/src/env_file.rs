//! A file of environment variables, as `envFile` names it: one NAME=value per line.
//!
//! There is no standard, so this parser accepts the common subset: empty lines and lines that begin with `#` are
//! skipped, `export ` before a name is allowed, and a value may be in single or double quotes. Nothing in a value is
//! expanded. An error names the number of a line and never its text, because it may hold a secret.

/// Parses the variables. The error names the invalid line.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let pair = line.split_once('=').map(|(name, value)| (name.trim(), unquoted(value.trim())));
        match pair {
            Some((name, Some(value))) if is_name(name) => variables.push((name.to_owned(), value.to_owned())),
            _ => return Err(format!("line {} is not NAME=value", index + 1)),
        }
    }
    Ok(variables)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn unquoted(value: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(inside) = value.strip_prefix(quote) {
            return inside.strip_suffix(quote);
        }
    }
    (!value.contains('\0')).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_syntax_is_parsed() {
        let text = "# a comment\n\nA=1\nexport B = \"two words\"\nC='$x'\r\nD=\n";
        let read = parse(text).unwrap();
        let expected = [("A", "1"), ("B", "two words"), ("C", "$x"), ("D", "")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn invalid_line_is_named_by_number_only() {
        for text in ["A=1\ns3cret", "A=1\nB=\"s3cret", "A=1\n9X=s3cret", "\n=s3cret"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("line 2") && !error.contains("s3cret"), "{error}");
        }
    }
}
