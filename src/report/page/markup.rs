//! Texts of both pages: a subset of Markdown, and its conversion to HTML.

/// `text` as HTML. It may have paragraphs, lists whose items begin with `- `, and code between backticks.
pub(super) fn html(text: &str) -> String {
    text.split("\n\n").map(block).collect()
}

fn block(text: &str) -> String {
    let Some(items) = text.strip_prefix("- ") else { return format!("<p>{}</p>\n", inline(text)) };
    let items: String = items.split("\n- ").map(|item| format!("<li>{}</li>\n", inline(item))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// `text` with code between backticks, as HTML. A backtick without a partner is one.
pub(super) fn inline(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    if !escaped.matches('`').count().is_multiple_of(2) {
        return escaped;
    }
    let parts = escaped.split('`').enumerate();
    parts
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_lists_and_code_become_html() {
        let text = "One\n`a < b` & two.\n\n- First,\n  on two lines.\n- Second.\n\nLast.";
        let expected = "<p>One\n<code>a &lt; b</code> &amp; two.</p>\n<ul>\n<li>First,\n  on two lines.</li>\n\
                        <li>Second.</li>\n</ul>\n<p>Last.</p>\n";
        assert_eq!(html(text), expected);
        assert_eq!(inline("a ` b `c`"), "a ` b `c`");
    }
}
