#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::api_query(data));
