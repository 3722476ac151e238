//! `WWW-Authenticate`: the credential that a server asks for.

/// One challenge: a scheme and its parameters. All texts are those of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The scheme, `Bearer` for OAuth.
    pub scheme: String,
    /// The error code.
    pub error: Option<String>,
    /// The error in words.
    pub description: Option<String>,
    /// The required scopes, separated by spaces.
    pub scope: Option<String>,
    /// The protected area.
    pub realm: Option<String>,
    /// The URL of the metadata about the login (RFC 9728), as the server wrote it.
    pub resource_metadata: Option<String>,
}

impl Challenge {
    /// Parses the value of one header, which may hold several challenges. A broken one is parsed as far as possible.
    pub fn parse(header: &str) -> Vec<Challenge> {
        let mut challenges: Vec<Challenge> = Vec::new();
        let mut rest = header.trim_start_matches([' ', ',', '\t']);
        while !rest.is_empty() {
            let word_end = rest.find([' ', '\t', '=', ',']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(word_end);
            let after_spaces = after.trim_start_matches([' ', '\t']);
            if let Some(value) = after_spaces.strip_prefix('=')
                && let Some(challenge) = challenges.last_mut()
            {
                let (value, left) = parameter_value(value.trim_start());
                challenge.set(word, value);
                rest = left;
            } else if word.is_empty() {
                // A stray character; at least one is skipped.
                rest = after.get(after.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
            } else {
                challenges.push(Challenge { scheme: word.to_owned(), ..Challenge::default() });
                rest = after;
            }
            rest = rest.trim_start_matches([' ', ',', '\t']);
        }
        challenges
    }

    /// Returns whether the server asks for more permissions.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Sets a known parameter; the first of several wins.
    fn set(&mut self, name: &str, value: String) {
        let parameter = match name.to_ascii_lowercase().as_str() {
            "error" => &mut self.error,
            "error_description" => &mut self.description,
            "scope" => &mut self.scope,
            "realm" => &mut self.realm,
            "resource_metadata" => &mut self.resource_metadata,
            _ => return,
        };
        parameter.get_or_insert(value);
    }
}

/// Parses a token or a quoted string. Returns it and the rest of the text.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_challenge_are_parsed() {
        let header = r#"Bearer realm="notes", error="invalid_token", error_description="it \"expired\", sorry", scope="a b", resource_metadata="https://x.test/.well-known/y?z""#;
        let challenges = Challenge::parse(header);
        let [challenge] = challenges.as_slice() else { panic!("{challenges:?}") };
        assert_eq!(challenge.scheme, "Bearer");
        assert_eq!(challenge.description.as_deref(), Some(r#"it "expired", sorry"#));
        assert_eq!((challenge.scope.as_deref(), challenge.realm.as_deref()), (Some("a b"), Some("notes")));
        assert_eq!(challenge.resource_metadata.as_deref(), Some("https://x.test/.well-known/y?z"));
    }

    #[test]
    fn several_challenges_in_one_header_are_told_apart() {
        let challenges = Challenge::parse(r#"Basic realm=x, Bearer error = "insufficient_scope",scope="w", DPoP"#);
        let schemes: Vec<&str> = challenges.iter().map(|challenge| challenge.scheme.as_str()).collect();
        assert_eq!(schemes, ["Basic", "Bearer", "DPoP"]);
        assert_eq!(challenges[0].realm.as_deref(), Some("x"));
        assert!(challenges[1].is_insufficient_scope() && challenges[1].scope.as_deref() == Some("w"));
    }

    #[test]
    fn broken_challenge_is_parsed_as_far_as_possible() {
        for text in ["", "Bearer", "Bearer =", "Bearer a=\"", "Bearer a=\"\\", ",,,=\"x\"=", "Bearer error=\"é", "é=é"]
        {
            let _ = Challenge::parse(text);
        }
        assert_eq!(Challenge::parse("Bearer error=\"half")[0].error.as_deref(), Some("half"));
    }
}
