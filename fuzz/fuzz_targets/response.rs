#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mendline_fuzz::shell::response(data));
