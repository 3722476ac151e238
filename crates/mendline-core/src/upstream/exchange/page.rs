//! The words of a page that a server sent instead of a response.

use crate::defaults;
use crate::quote::Quote;

/// The first words of a body that is not JSON-RPC: the title of an HTML page, else its text without tags. Secrets are
/// redacted before the text is cut; a word that the byte limit cuts is left out.
pub fn first_words(body: &[u8], quote: &dyn Quote) -> Option<String> {
    let mut beginning = &body[..body.len().min(defaults::PAGE_BYTES)];
    if beginning.len() < body.len() {
        let end = beginning.iter().rposition(u8::is_ascii_whitespace).unwrap_or_default();
        beginning = &beginning[..end];
    }
    let text = String::from_utf8_lossy(beginning);
    let text = title_of(&text).map_or_else(|| without_tags(&text), str::to_owned);
    let text = quote.quote(text.as_bytes(), defaults::PAGE_BYTES);
    let mut words = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        let space = usize::from(!words.is_empty());
        if words.chars().count() + space + word.chars().count() > defaults::PAGE_WORDS {
            words.push('…');
            break;
        }
        words.extend(std::iter::repeat_n(' ', space));
        words.push_str(word);
    }
    Some(words).filter(|words| words.chars().any(char::is_alphanumeric))
}

fn title_of(page: &str) -> Option<&str> {
    let lower = page.to_ascii_lowercase();
    let begin = lower.find("<title")?;
    let begin = begin + lower[begin..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    Some(page[begin..end].trim()).filter(|title| !title.is_empty())
}

fn without_tags(page: &str) -> String {
    if !page.trim_start().starts_with('<') {
        return page.to_owned();
    }
    let mut text = String::new();
    for piece in page.split('<').skip(1) {
        if let Some((_, after)) = piece.split_once('>') {
            text.push_str(after);
            text.push(' ');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quote::Unredacted;

    #[test]
    fn t01_first_words_of_a_page_are_title_or_text() {
        let page =
            b"<!DOCTYPE html><html><head><Title lang=en> 503 Service\n Unavailable </title></head><body>x</body>";
        assert_eq!(first_words(page, &Unredacted).as_deref(), Some("503 Service Unavailable"));
        assert_eq!(first_words(b"<h1>Bad</h1>\r\n<p>gateway</p>", &Unredacted).as_deref(), Some("Bad gateway"));
        assert_eq!(
            first_words(b"upstream \x1b connect\terror", &Unredacted).as_deref(),
            Some("upstream connect error")
        );
        assert_eq!(first_words(b"  \n", &Unredacted), None);
        assert_eq!(first_words(b"<<<>>>", &Unredacted), None);
        let long = "word ".repeat(200);
        let words = first_words(long.as_bytes(), &Unredacted).unwrap();
        assert!(words.ends_with('…') && words.chars().count() <= defaults::PAGE_WORDS + 1, "{words}");
    }

    #[test]
    fn word_that_the_byte_limit_cuts_is_left_out() {
        let page = format!("{:1$}bearer secret", "Unavailable", defaults::PAGE_BYTES - 10);
        assert_eq!(first_words(page.as_bytes(), &Unredacted).as_deref(), Some("Unavailable bearer"));
    }
}
