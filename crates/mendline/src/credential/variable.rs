//! A credential from an environment variable.
//!
//! The variables of a running process do not change, so the caller passes the value that it had at the start. A refused
//! credential stays refused until the configuration is read again.

use mendline_core::Secret;
use mendline_core::reason::CredentialError;

use super::{Credential, CredentialSource, HeaderForm, Occasion, SourceFuture, TokenFault};

/// A token in an environment variable.
#[derive(Debug)]
pub struct VariableSource {
    credential: Result<Credential, CredentialError>,
}

impl VariableSource {
    /// Creates a source from the name of a variable and its value. A variable that is not set or empty is an error of
    /// each read.
    pub fn new(name: &str, value: Option<&Secret>, form: &HeaderForm) -> Result<VariableSource, TokenFault> {
        let credential = match value.filter(|value| !value.expose().is_empty()) {
            None => Err(CredentialError::VariableMissing { name: name.to_owned() }),
            Some(value) => Ok(form.read(value.expose())?),
        };
        Ok(VariableSource { credential })
    }
}

impl CredentialSource for VariableSource {
    fn read<'a>(&'a mut self, _: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        Box::pin(std::future::ready(self.credential.clone().map(Some)))
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(value: Option<&str>) -> Result<Option<Credential>, CredentialError> {
        let value = value.map(Secret::new);
        let mut source = VariableSource::new("NOTES_TOKEN", value.as_ref(), &HeaderForm::default()).unwrap();
        assert!(!format!("{source:?}").contains("hunter2"));
        source.read(&Occasion::Start).await
    }

    #[tokio::test]
    async fn value_is_the_token_and_a_missing_variable_is_named() {
        assert_eq!(read(Some("hunter2")).await, Ok(Some(Credential::bearer(&Secret::new("hunter2")))));
        for missing in [None, Some("")] {
            let why = read(missing).await.unwrap_err();
            assert_eq!(why.to_string(), "the variable NOTES_TOKEN is not set");
        }
        let two_lines = Secret::new("hunter2\nhunter3");
        let fault = VariableSource::new("X", Some(&two_lines), &HeaderForm::default()).unwrap_err();
        assert_eq!(fault.to_string(), "it has more than one line; a token is one line");
    }
}
