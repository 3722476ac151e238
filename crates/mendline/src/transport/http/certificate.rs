//! Reads the fields of a certificate that people need.
//!
//! Only the verifier decides whether a certificate is trusted. This module reads the subject, the issuer, the names and
//! the validity for messages. The bytes may come from any peer: malformed ones give `None`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The fields of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The common name of the subject, else its organisation; empty if it has neither.
    pub subject: String,
    /// The same of the issuer.
    pub issuer: String,
    /// The names and addresses that it is valid for.
    pub names: Vec<String>,
    /// The beginning of its validity.
    pub not_before: SystemTime,
    /// The end of its validity.
    pub not_after: SystemTime,
    /// Whether subject and issuer are the same.
    pub is_self_signed: bool,
    /// Whether it is the certificate of an authority, made to sign other certificates.
    pub is_authority: bool,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERAL_TIME: u8 = 0x18;
/// The constructed tags `[0]` and `[3]`.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// The tags `[2]` and `[7]` among the alternative names.
const DNS_NAME: u8 = 0x82;
const ADDRESS: u8 = 0x87;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

/// The most names that are read.
const MAX_NAMES: usize = 32;

impl Certificate {
    /// Reads a certificate in DER form.
    pub(super) fn read(der: &[u8]) -> Option<Certificate> {
        let (whole, _) = value_of(der, SEQUENCE)?;
        let (mut rest, _) = value_of(whole, SEQUENCE)?;
        if let Some((_, after)) = value_of(rest, VERSION) {
            rest = after;
        }
        let (_, _, rest) = next(rest)?; // The serial number.
        let (_, _, rest) = next(rest)?; // The signature algorithm.
        let (issuer, rest) = value_of(rest, SEQUENCE)?;
        let (validity, rest) = value_of(rest, SEQUENCE)?;
        let (subject, rest) = value_of(rest, SEQUENCE)?;
        let (_, _, mut rest) = next(rest)?; // The public key.
        let (not_before, later) = time(validity)?;
        let (not_after, _) = time(later)?;
        let (mut names, mut is_authority) = (Vec::new(), false);
        while let Some((tag, value, after)) = next(rest) {
            if tag == EXTENSIONS {
                names = alternative_names(value).unwrap_or_default();
                is_authority = signs_others(value).unwrap_or_default();
            }
            rest = after;
        }
        Some(Certificate {
            subject: common_name(subject),
            issuer: common_name(issuer),
            names,
            not_before,
            not_after,
            is_self_signed: subject == issuer,
            is_authority,
        })
    }
}

/// Reads the next element: its tag, its value, and the bytes after it.
fn next(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // Four bytes of length are more than any certificate needs.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (value, after) = rest.split_at_checked(length)?;
    Some((*tag, value, after))
}

/// Reads the value of the next element if it has this tag, and the bytes after it.
fn value_of(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, value, after) = next(der)?;
    (tag == wanted).then_some((value, after))
}

/// Returns the common name or the organisation of a distinguished name.
fn common_name(mut name: &[u8]) -> String {
    let (mut common, mut organisation) = (None, None);
    while let Some((set, after)) = value_of(name, SET) {
        if let Some((pair, _)) = value_of(set, SEQUENCE)
            && let Some((oid, value)) = value_of(pair, OID)
            && let Some((_, text, _)) = next(value)
        {
            let text = || String::from_utf8_lossy(text).into_owned();
            match oid {
                COMMON_NAME => common = Some(text()),
                ORGANISATION => organisation = Some(text()),
                _ => {}
            }
        }
        name = after;
    }
    common.or(organisation).unwrap_or_default()
}

fn alternative_names(extensions: &[u8]) -> Option<Vec<String>> {
    extension(extensions, ALTERNATIVE_NAMES).map(names_in)
}

/// Reads the first of the basic constraints, which is omitted if it is false.
fn signs_others(extensions: &[u8]) -> Option<bool> {
    let (value, _) = value_of(extension(extensions, BASIC_CONSTRAINTS)?, BOOLEAN)?;
    Some(value != [0])
}

/// Returns the content of the sequence in this extension.
fn extension<'a>(extensions: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let (mut all, _) = value_of(extensions, SEQUENCE)?;
    while let Some((extension, after)) = value_of(all, SEQUENCE) {
        let (oid, mut value) = value_of(extension, OID)?;
        if oid == wanted {
            // The flag `critical` may precede the value.
            while let Some((tag, octets, after)) = next(value) {
                if tag == OCTETS {
                    return value_of(octets, SEQUENCE).map(|(held, _)| held);
                }
                value = after;
            }
        }
        all = after;
    }
    None
}

fn names_in(mut der: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((tag, value, after)) = next(der).filter(|_| names.len() < MAX_NAMES) {
        match (tag, value.len()) {
            (DNS_NAME, _) => names.push(String::from_utf8_lossy(value).into_owned()),
            (ADDRESS, 4) => names.extend(<[u8; 4]>::try_from(value).map(|it| Ipv4Addr::from(it).to_string())),
            (ADDRESS, 16) => names.extend(<[u8; 16]>::try_from(value).map(|it| Ipv6Addr::from(it).to_string())),
            _ => {}
        }
        der = after;
    }
    names
}

/// Reads a time, and the bytes after it. The short form has two digits for the year; those below 50 mean 20xx.
fn time(der: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (tag, text, after) = next(der)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERAL_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let mut fields = [0_i64; 5];
    for (field, at) in fields.iter_mut().zip((0..).step_by(2)) {
        *field = rest.get(at..at + 2)?.parse().ok()?;
    }
    let [month, day, hour, minute, second] = fields;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    let seconds = u64::try_from(seconds).ok()?;
    Some((UNIX_EPOCH + Duration::from_secs(seconds), after))
}

/// Returns the days since the beginning of 1970. Years begin in March, so that a leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let since_march = (month + 9) % 12;
    let day_of_year = (153 * since_march + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let names = vec!["a.test".to_owned(), "*.b.test".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "Example Ltd");
        params.distinguished_name.push(DnType::CommonName, "a.test");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2024, 2, 29);
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn date(time: SystemTime) -> String {
        humantime::format_rfc3339_seconds(time).to_string()
    }

    #[test]
    fn subject_names_and_validity_are_read() {
        let read = Certificate::read(&made(|_| {})).unwrap();
        assert_eq!((read.subject.as_str(), read.issuer.as_str(), read.is_self_signed), ("a.test", "a.test", true));
        assert_eq!(read.names, ["a.test", "*.b.test", "127.0.0.1", "::1"]);
        assert_eq!(
            (date(read.not_before), date(read.not_after)),
            ("2020-01-01T00:00:00Z".into(), "2024-02-29T00:00:00Z".into())
        );
    }

    #[test]
    fn u06_certificate_of_authority_is_told_from_one_of_server() {
        use rcgen::{BasicConstraints, IsCa};
        for (kind, is_authority) in [
            (IsCa::NoCa, false),
            (IsCa::ExplicitNoCa, false),
            (IsCa::Ca(BasicConstraints::Unconstrained), true),
            (IsCa::Ca(BasicConstraints::Constrained(0)), true),
        ] {
            let read = Certificate::read(&made(|params| params.is_ca = kind)).unwrap();
            assert_eq!((read.is_authority, read.names.len()), (is_authority, 4), "{kind:?}");
        }
    }

    #[test]
    fn years_after_2049_are_read() {
        let read = Certificate::read(&made(|params| params.not_after = date_time_ymd(2200, 12, 31))).unwrap();
        assert_eq!(date(read.not_after), "2200-12-31T00:00:00Z");
    }

    #[test]
    fn organisation_replaces_missing_common_name() {
        let read = Certificate::read(&made(|params| {
            assert!(params.distinguished_name.remove(DnType::CommonName));
        }));
        assert_eq!(read.unwrap().subject, "Example Ltd");
    }

    #[test]
    fn malformed_certificate_causes_no_panic() {
        let whole = made(|_| {});
        for end in 0..whole.len() {
            assert_eq!(Certificate::read(&whole[..end]), None, "cut at {end}");
        }
        for at in 0..whole.len() {
            for byte in [0x00, 0x7f, 0x80, 0x84, 0xff] {
                let mut der = whole.clone();
                der[at] = byte;
                // Any result is fine except a panic.
                let _ = Certificate::read(&der);
            }
        }
    }
}
