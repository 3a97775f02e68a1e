//! Finds passwords in the values of environment variables: in addresses such as `http://user:password@host:3128`.

/// Whether the value of the variable `name` has a password in an address.
///
/// In `http` and `https`, a user without a password is a token and counts as a password. In other schemes it is only a
/// name, as in `ssh://git@host`. The addresses of proxies can lack their scheme.
pub fn contains_password(name: &str, value: &str) -> bool {
    passwords(name, value).next().is_some()
}

/// The passwords and tokens in `value`, the value of the variable `name`, unchanged.
pub(super) fn passwords<'a>(name: &str, value: &'a str) -> impl Iterator<Item = &'a str> {
    // A shortcut: this function is called for many values, and few contain the letter.
    let value = if value.contains('@') { value } else { "" };
    let is_bare_proxy = name.to_ascii_uppercase().ends_with("PROXY") && !value.contains("://");
    let bare = is_bare_proxy.then(|| password_before_host(value, false)).flatten();
    let schemes = value.match_indices("://").map(|(at, _)| at);
    let in_urls = schemes.filter_map(|at| password_before_host(&value[at + 3..], is_of_web(&value[..at])));
    in_urls.chain(bare)
}

/// Whether `text` ends in the scheme `http` or `https`, or in one that is based on it, such as `git+https`.
fn is_of_web(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.ends_with("http") || text.ends_with("https")
}

/// The password in `user:password@host…`, which `text` begins with; if the address `is_of_web`, also a user alone.
fn password_before_host(text: &str, is_of_web: bool) -> Option<&str> {
    let end = text.find(|letter: char| letter.is_whitespace() || "\"'<>".contains(letter));
    let text = &text[..end.unwrap_or(text.len())];
    let authority = &text[..text.find(['/', '?', '#']).unwrap_or(text.len())];
    let Some((user, _)) = authority.rsplit_once('@') else { return unescaped_password(text, authority) };
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let token = Some(user).filter(|_| is_of_web);
    Some(password).filter(|password| !password.is_empty()).or(token).filter(|found| !found.is_empty())
}

/// The password in `user:pass/word@host`, which has an unescaped `/`, `?` or `#`. `authority` is the text before that
/// character. A port begins with a digit, and an IPv6 address with a bracket.
fn unescaped_password<'a>(text: &'a str, authority: &str) -> Option<&'a str> {
    let (user, rest) = authority.split_once(':')?;
    let is_host = user.starts_with('[') || rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit());
    if is_host {
        return None;
    }
    let (before, _) = text.rsplit_once('@')?;
    before.get(user.len() + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, value: &str) -> Vec<String> {
        passwords(name, value).map(str::to_owned).collect()
    }

    #[test]
    fn a_password_is_found_in_any_address() {
        for (value, expected) in [
            ("http://me:hush@host:3128", &["hush"][..]),
            ("HTTPS://me:hu%40sh@host", &["hu%40sh"]),
            ("socks5h://me:hush@[::1]:1080", &["hush"]),
            ("redis://:hush@host", &["hush"]),
            ("postgresql+psycopg://me:hush@host/db?x=a@b", &["hush"]),
            ("http://me:hu@sh@host", &["hu@sh"]),
            ("http://me:hu:sh@host", &["hu:sh"]),
            ("http://me:hu/s#h?@host", &["hu/s#h?"]),
            ("https://hush@host/simple", &["hush"]),
            ("git+https://hush:@github.com/a/b", &["hush"]),
            ("http://a:80,http://me:hush1@b:80;https://hush2@c", &["hush1", "hush2"]),
            ("--extra-index-url 'https://me:hush@host/simple' x", &["hush"]),
            ("x=\"http://a:b@c\"", &["b"]),
        ] {
            assert_eq!(found("A", value), expected, "{value}");
        }
    }

    #[test]
    fn other_parts_of_addresses_are_not_passwords() {
        for value in [
            "",
            "@",
            "http://host:80/",
            "http://host:80/path@v1",
            "http://host/?mail=me@host",
            "http://host:80?mail=me@host",
            "http://host#me@host",
            "http://[::1]:80/me@host",
            "http://host:/me@host",
            "http://@host",
            "http://:@host",
            "me@host.org",
            "mailto:me@host.org",
            "git@host:me/path.git",
            "ssh://git@host/me/path",
            "ssh://git:@host/me/path",
            "git+ssh://git@host:22/path@v1",
            "file:///home/me@host",
            "a:b@c",
            "://",
        ] {
            assert_eq!(found("A", value), [""; 0], "{value}");
        }
    }

    #[test]
    fn the_address_of_a_proxy_needs_no_scheme() {
        for name in ["https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            assert_eq!(found(name, "me:hush@host:3128"), ["hush"]);
            assert_eq!(found(name, "http://me:hush@host:3128"), ["hush"]);
            assert_eq!(found(name, "host:3128"), [""; 0]);
        }
        assert_eq!(found("NO_PROXY", "localhost,10.0.0.0/8,.host.org"), [""; 0]);
        assert!(contains_password("ALL_PROXY", "me:hush@host") && !contains_password("ALL", "me:hush@host"));
    }
}
