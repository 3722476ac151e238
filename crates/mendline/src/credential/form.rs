//! The header in which a token is sent.

use mendline_core::Secret;

use super::Credential;
use crate::transport::http::HeaderFault;

/// The placeholder of the token in a format.
const PLACEHOLDER: &str = "{}";

const INVALID: &str = "it has characters that HTTP does not allow in a header";

/// The header of a token, and its format.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderForm {
    header: String,
    before: Secret,
    after: Secret,
}

/// The reason why a format cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormFault {
    /// It does not contain `{}` exactly once.
    Placeholder,
    /// HTTP does not allow the header.
    Header(HeaderFault),
}

impl std::fmt::Display for FormFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FormFault::Placeholder => f.write_str("the format must contain {} exactly once, in place of the token"),
            FormFault::Header(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for FormFault {}

/// The reason why a text is not a token. Never shows the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenFault(&'static str);

impl std::fmt::Display for TokenFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for TokenFault {}

impl std::fmt::Debug for HeaderForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HeaderForm({:?})", self.header)
    }
}

impl Default for HeaderForm {
    fn default() -> HeaderForm {
        HeaderForm { header: "Authorization".to_owned(), before: Secret::new("Bearer "), after: Secret::new("") }
    }
}

impl HeaderForm {
    /// A header with a format in which `{}` stands for the token.
    pub fn new(header: &str, format: &str) -> Result<HeaderForm, FormFault> {
        let (before, after) = format.split_once(PLACEHOLDER).ok_or(FormFault::Placeholder)?;
        if after.contains(PLACEHOLDER) {
            return Err(FormFault::Placeholder);
        }
        let form = HeaderForm { header: header.to_owned(), before: Secret::new(before), after: Secret::new(after) };
        form.credential(&Secret::new("token")).check().map_err(FormFault::Header)?;
        Ok(form)
    }

    /// Returns the credential with this token.
    pub fn credential(&self, token: &Secret) -> Credential {
        let value = Secret::new([self.before.expose(), token.expose(), self.after.expose()].concat());
        Credential { headers: vec![(self.header.clone(), value)], expires_at: None }
    }

    /// Returns the credential with the token in a text. The error says what is wrong with the text, without the text.
    pub(super) fn read(&self, text: &str) -> Result<Credential, TokenFault> {
        // One newline at the end belongs to the file or to the output, not to the token.
        let token = text.strip_suffix('\n').unwrap_or(text);
        let token = token.strip_suffix('\r').unwrap_or(token);
        if token.trim().is_empty() {
            return Err(TokenFault("it is empty"));
        }
        if token.contains(['\n', '\r']) {
            return Err(TokenFault("it has more than one line; a token is one line"));
        }
        let credential = self.credential(&Secret::new(token));
        credential.check().map_err(|_| TokenFault(INVALID))?;
        Ok(credential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(form: &HeaderForm, text: &str) -> String {
        let credential = form.read(text).unwrap();
        let [(name, value)] = &credential.headers[..] else { panic!("one header") };
        format!("{name}: {}", value.expose())
    }

    #[test]
    fn token_is_put_into_the_format() {
        assert_eq!(header(&HeaderForm::default(), "abc\n"), "Authorization: Bearer abc");
        let form = HeaderForm::new("X-Api-Key", "{}").unwrap();
        assert_eq!(header(&form, "a b\r\n"), "X-Api-Key: a b");
        assert_eq!(
            header(&HeaderForm::new("Authorization", "Token token=\"{}\"").unwrap(), "x"),
            "Authorization: Token token=\"x\""
        );
    }

    #[test]
    fn text_that_is_no_token_is_refused() {
        let form = HeaderForm::default();
        for (text, why) in [
            ("", "it is empty"),
            ("\n", "it is empty"),
            ("  ", "it is empty"),
            ("a\nb\n", "it has more than one line; a token is one line"),
            ("a\n\n", "it has more than one line; a token is one line"),
            ("a\0b", "it has characters that HTTP does not allow in a header"),
        ] {
            assert_eq!(form.read(text), Err(TokenFault(why)), "{text:?}");
        }
    }

    #[test]
    fn invalid_forms_are_refused() {
        for format in ["Bearer", "", "{} {}"] {
            assert_eq!(HeaderForm::new("Authorization", format), Err(FormFault::Placeholder), "{format:?}");
        }
        assert!(matches!(HeaderForm::new("a b", "{}"), Err(FormFault::Header(_))));
        assert!(matches!(HeaderForm::new("Connection", "{}"), Err(FormFault::Header(_))));
        assert!(!format!("{:?}", HeaderForm::new("X", "hunter2 {}").unwrap()).contains("hunter2"));
    }
}
