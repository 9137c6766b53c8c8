//! What in a source file is a secret by its name or by its looks. Addresses and files end up in logs and repositories; secrets come from
//! the environment, in a header ([`request.secret`](crate::Source)).

/// Names of parameters and headers that hold secrets, without `-`, `_` and `.`.
const NAMES: [&str; 19] = [
    "key",
    "token",
    "auth",
    "authorization",
    "proxyauthorization",
    "cookie",
    "bearer",
    "sig",
    "sign",
    "pass",
    "passwd",
    "pwd",
    "jwt",
    "code",
    "credential",
    "credentials",
    "session",
    "sessionid",
    "privatetoken",
];
/// How longer names of secrets end. Tokens of pages (`page_token`) are none.
const ENDINGS: [&str; 15] = [
    "apikey",
    "accesskey",
    "secretkey",
    "subscriptionkey",
    "licensekey",
    "authkey",
    "apitoken",
    "accesstoken",
    "authtoken",
    "sessiontoken",
    "secret",
    "password",
    "signature",
    "accesskeyid",
    "securitytoken",
];
/// How secrets of well-known kinds begin.
const BEGINNINGS: [&str; 13] =
    ["sk-", "sk_", "pk_live", "rk_live", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xox", "AKIA", "eyJ", "hf_"];
/// Words from this length on that mix digits and letters are secrets, or nobody can tell that they are not.
const LONG: usize = 32;
const MIN_LENGTH: usize = 12;

/// Whether a parameter or header of this name holds a secret.
pub(crate) fn is_name(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !"-_.".contains(*c)).map(|c| c.to_ascii_lowercase()).collect();
    NAMES.contains(&plain.as_str()) || ENDINGS.iter().any(|ending| plain.ends_with(ending))
}

/// Whether a text of a file looks like a secret.
pub(crate) fn is_in(text: &str) -> bool {
    let outside = |c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c);
    text.split(outside).any(|word| {
        let known = word.len() >= MIN_LENGTH && BEGINNINGS.iter().any(|beginning| word.starts_with(beginning));
        let mixed = |word: &str| {
            word.len() >= LONG
                && word.bytes().any(|b| b.is_ascii_digit())
                && word.bytes().any(|b| b.is_ascii_alphabetic())
        };
        known || word.split('-').any(mixed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_in_every_spelling() {
        for name in [
            "key",
            "API_KEY",
            "x-api-key",
            "access_key",
            "accessKey",
            "api_token",
            "sig",
            "signature",
            "X-Amz-Signature",
            "auth",
            "client.secret",
        ] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "q",
            "limit",
            "page_token",
            "pageToken",
            "cursor",
            "keyword",
            "monkey",
            "accept",
            "x-github-api-version",
            "design",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn secrets_by_their_looks() {
        let long = "0123456789abcdef0123456789abcdef";
        for text in ["sk-live-1234567", "/v1/ghp_abcdefghij12/x", "Bearer eyJhbGciOiJI", long, &format!("/v1/{long}/x")]
        {
            assert!(is_in(text), "{text}");
        }
        for text in [
            "/api/v1/agents/",
            "application/vnd.github+json",
            "2022-11-28",
            "123e4567-e89b-12d3-a456-426614174000",
            "/platform/v2/x402/discovery/resources",
        ] {
            assert!(!is_in(text), "{text}");
        }
    }
}
