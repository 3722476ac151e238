//! The rules in numbers: small machines that are told the time and decide one thing each.

pub mod backoff;
pub mod budget;
pub mod effect;
