//! Findings about the certificate of a server: its names, its expiry, and what to do if it is not trusted.

use std::time::{Duration, SystemTime};

use mendline::decisions::reason::TlsError;
use mendline::transport::http::Certificate;

use super::step::{Step, Verdict};
use crate::untrusted_text::one_line;

/// Remaining validity below which a certificate should have been renewed.
const SOON: Duration = Duration::from_secs(14 * 86_400);

pub(crate) fn trusted(version: &str, is_http2: bool, certificate: Option<&Certificate>, now: SystemTime) -> Step {
    let http = if is_http2 { "HTTP/2" } else { "HTTP/1.1" };
    let Some(certificate) = certificate else { return Step::ok("tls", format!("{version}, {http}")) };
    let left = certificate.not_after.duration_since(now).unwrap_or_default();
    let days = left.as_secs() / 86_400;
    let words = format!(
        "{version}, {http}; certificate for {} by {}, good for {days} days",
        certificate_names(certificate),
        one_line(&certificate.issuer)
    );
    let step = if left < SOON {
        Step::warning("tls", words).advice("Its operator should renew it now")
    } else {
        Step::ok("tls", words)
    };
    step.fact("version", version).fact("alpn", http)
}

pub(crate) fn distrusted(error: &TlsError, server: &str, certificate: Option<&Certificate>) -> Step {
    let advice = match (error, certificate) {
        (TlsError::UnknownAuthority { .. }, Some(certificate)) if certificate.is_self_signed => {
            "If it is yours: `openssl s_client -connect HOST:PORT </dev/null | openssl x509 >cert.pem` saves it, and \
             NODE_EXTRA_CA_CERTS=/path/cert.pem in the environment of Mendline trusts it. If not: another machine may be \
             listening in"
        }
        (TlsError::UnknownAuthority { .. }, Some(_)) => {
            "If it is your company's authority, name its PEM file in NODE_EXTRA_CA_CERTS; if not, another machine may be listening in"
        }
        (TlsError::Validity { .. }, Some(_)) => {
            "Its operator must renew it. If other machines accept it: is this machine's clock right?"
        }
        (TlsError::WrongName { .. }, Some(_)) => {
            "Use a name of the certificate, or ask its operator for one with this name"
        }
        _ => "Nothing is sent to a server that cannot prove who it is",
    };
    Step::failed("tls", error.with(server).to_string()).advice(advice)
}

pub(crate) fn with_certificate(step: Step, certificate: &Certificate) -> Step {
    let date = |time| humantime::format_rfc3339_seconds(time).to_string();
    let step = if step.verdict == Verdict::Failed {
        let (subject, issuer) = (certificate_names(certificate), one_line(&certificate.issuer));
        step.details([format!("certificate for {subject} by {issuer}, until {}", date(certificate.not_after))])
    } else {
        step
    };
    step.fact("subject", certificate.subject.as_str())
        .fact("issuer", certificate.issuer.as_str())
        .fact("names", certificate.names.clone())
        .fact("notBefore", date(certificate.not_before))
        .fact("notAfter", date(certificate.not_after))
}

fn certificate_names(certificate: &Certificate) -> String {
    match certificate.names.as_slice() {
        [] => one_line(&certificate.subject),
        [only] => one_line(only),
        [first, rest @ ..] => format!("{} and {} more", one_line(first), rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(left: Duration) -> Certificate {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        Certificate {
            subject: "a.test".into(),
            issuer: "An authority".into(),
            names: vec!["a.test".into(), "b.test".into()],
            not_before: SystemTime::UNIX_EPOCH,
            not_after: now + left,
            is_self_signed: false,
            is_authority: false,
        }
    }

    #[test]
    fn certificate_that_expires_soon_is_a_warning() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let days = |days: u64| trusted("TLS 1.3", true, Some(&certificate(Duration::from_secs(days * 86_400))), now);
        assert_eq!(
            days(90).words,
            "TLS 1.3, HTTP/2; certificate for a.test and 1 more by An authority, good for 90 days"
        );
        assert_eq!((days(90).verdict, days(13).verdict), (Verdict::Ok, Verdict::Warning));
    }
}
