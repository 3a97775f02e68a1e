//! The secret that requests need if the server listens beyond the loopback device.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The bits of a token: 128.
const BYTES: usize = 16;

/// A random secret that requests must contain.
#[derive(Clone)]
pub struct Token(String);

/// The system provides no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system provides no random numbers for a token: {0}")]
pub struct TokenError(getrandom::Error);

impl Token {
    /// A new random token of 128 bits.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn random() -> Result<Token, TokenError> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(TokenError)?;
        Ok(Token(hex::encode(bytes)))
    }

    /// The token itself: 32 hexadecimal digits, for the URL that opens the pages.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `word` is the token. The time of the comparison depends only on the length of `word`.
    pub(super) fn is(&self, word: &str) -> bool {
        self.0.as_bytes().ct_eq(word.as_bytes()).into()
    }

    /// The name of the cookie with the token. Cookies are shared by all ports of a host, so the name differs by server.
    pub(super) fn cookie_name(&self) -> String {
        format!("orchestrate-{}", &hex::encode(Sha256::digest(&self.0))[..8])
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_128_bits_and_are_not_printed() {
        let [one, other] = [Token::random().unwrap(), Token::random().unwrap()];
        assert_eq!(one.reveal().len() * 4, 128);
        assert_ne!(one.reveal(), other.reveal());
        assert_ne!(one.cookie_name(), other.cookie_name());
        assert!(one.is(one.reveal()) && !one.is(other.reveal()));
        for wrong in ["", &one.reveal()[1..], &format!("{}0", one.reveal())] {
            assert!(!one.is(wrong), "{wrong}");
        }
        assert!(!format!("{one:?}").contains(one.reveal()));
    }
}
