//! Arbitrary bytes as what the kernel tells of its security associations.

use halfwink_live_router::{read_xfrm, News};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let mut messages = 0;
    for read in read_xfrm(bytes) {
        messages += 1;
        match read {
            Ok(News::There(association)) => {
                if let Err(why) = &association.key {
                    assert!(!why.is_empty() && !why.chars().any(char::is_control), "{why:?}");
                }
            }
            Ok(_) => {}
            Err(error) => {
                assert!(error.at < bytes.len());
                assert!(!error.to_string().contains('\n'));
            }
        }
    }
    // The shortest message is a header.
    assert!(messages <= bytes.len() / 16 + 1);
}
