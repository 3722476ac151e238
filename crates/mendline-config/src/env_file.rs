//! A file of variables, as `envFile` names it: one NAME=value a line.
//!
//! There is no standard, so this reads what all of them agree on: empty lines and lines that begin with `#` are skipped,
//! `export ` before a name is allowed, and a value may stand in single or double quotes. Nothing in a value is replaced. A
//! line that is none of this is refused by its number alone: it may hold a secret.

/// Reads the variables, or says which line cannot be read.
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
    fn what_everybody_agrees_on_is_read() {
        let text = "# a remark\n\nA=1\nexport B = \"two words\"\nC='$x'\r\nD=\n";
        let read = parse(text).unwrap();
        let expected = [("A", "1"), ("B", "two words"), ("C", "$x"), ("D", "")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_by_its_number_only() {
        for text in ["A=1\ns3cret", "A=1\nB=\"s3cret", "A=1\n9X=s3cret", "\n=s3cret"] {
            let complaint = parse(text).unwrap_err();
            assert!(complaint.contains("line 2") && !complaint.contains("s3cret"), "{complaint}");
        }
    }
}
