//! The parts of Markdown that the checks of pages need: fenced blocks, links and the anchors of headings.

use std::collections::{BTreeMap, BTreeSet};

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The words after the fence: the language, and a path if the block shows a file.
    pub(crate) info: String,
    /// The content, with the newline of each line.
    pub(crate) text: String,
    /// The lines of the content in the page, counted from 0.
    pub(crate) lines: std::ops::Range<usize>,
}

impl Block {
    pub(crate) fn language(&self) -> &str {
        self.info.split(' ').next().unwrap_or_default()
    }

    /// Returns the second word of the info string.
    pub(crate) fn path(&self) -> Option<&str> {
        self.info.split(' ').nth(1)
    }
}

/// A link or an image outside of blocks and code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The line, counted from 1.
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// Returns the fenced blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for (number, line) in page.lines().enumerate() {
        let ticks = ticks(line);
        match &mut open {
            None if ticks >= 3 => {
                let info = line.trim_start()[ticks..].trim().to_owned();
                open = Some((ticks, Block { info, text: String::new(), lines: number + 1..number + 1 }));
            }
            Some((opening, block)) if ticks >= *opening => {
                block.lines.end = number;
                blocks.extend(open.take().map(|(_, block)| block));
            }
            Some((_, block)) => {
                block.text += line;
                block.text.push('\n');
            }
            None => {}
        }
    }
    blocks
}

fn ticks(line: &str) -> usize {
    line.trim_start().chars().take_while(|c| *c == '`').count()
}

/// Returns the lines outside of fenced blocks, with their numbers from 1.
fn prose(page: &str) -> Vec<(usize, &str)> {
    let blocks = blocks(page);
    let is_outside = |number: usize| {
        // The fences are the lines before and after the content.
        !blocks.iter().any(|block| block.lines.start <= number + 1 && number <= block.lines.end)
    };
    page.lines()
        .enumerate()
        .filter(|(number, _)| is_outside(*number))
        .map(|(number, line)| (number + 1, line))
        .collect()
}

/// Returns the links of a page. Reference links are not used in this repository.
pub(crate) fn links(page: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(page) {
        let text = without_code(text);
        for (start, _) in text.match_indices("](") {
            let rest = &text[start + 2..];
            if let Some(end) = rest.find(')') {
                links.push(Link { line, target: rest[..end].to_owned() });
            }
        }
        // Images of a certain width are written in HTML.
        for (start, name) in text.match_indices(" src=\"") {
            let rest = &text[start + name.len()..];
            links.extend(rest.split_once('"').map(|(target, _)| Link { line, target: target.to_owned() }));
        }
    }
    links
}

/// Removes the code spans of a line.
fn without_code(line: &str) -> String {
    let mut parts = line.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let (Some(_), Some(outside)) = (parts.next(), parts.next()) {
        text.push_str("` `");
        text.push_str(outside);
    }
    text
}

/// Returns the anchors of the headings of a page, as GitHub and mdBook make them.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(page).into_iter().filter_map(|(_, line)| {
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        ((1..=6).contains(&level) && text.starts_with(' ')).then(|| slug(text.trim()))
    });
    let mut anchors = BTreeSet::new();
    for slug in headings {
        let count = seen.entry(slug.clone()).or_default();
        anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    anchors
}

/// Returns the anchor of a heading.
fn slug(heading: &str) -> String {
    // Of a link only its text counts.
    let mut text = heading.to_owned();
    while let Some((start, end)) = text.find("](").and_then(|at| Some((at, at + text[at..].find(')')? + 1))) {
        text.replace_range(start..end, "");
    }
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# One `flag`, [two](x.md)
See [a](a.md#b) and `[no](code)`, ![image](i.svg).
```sh
[not](a-link)
# not a heading
```
## Again
## Again
````python tests/a.py
```
````
";

    #[test]
    fn blocks_have_language_path_and_content() {
        let blocks = blocks(PAGE);
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].language(), blocks[0].path()), ("sh", None));
        assert_eq!(blocks[0].text, "[not](a-link)\n# not a heading\n");
        assert_eq!((blocks[1].language(), blocks[1].path()), ("python", Some("tests/a.py")));
        assert_eq!(blocks[1].text, "```\n");
        assert_eq!(PAGE.lines().nth(blocks[1].lines.start), Some("```"));
    }

    #[test]
    fn links_outside_of_code_are_found() {
        let found: Vec<_> = links(PAGE).into_iter().map(|link| (link.line, link.target)).collect();
        assert_eq!(found, [(1, "x.md".to_owned()), (2, "a.md#b".to_owned()), (2, "i.svg".to_owned())]);
        assert_eq!(links("<img src=\"docs/a.svg\" width=\"9\">")[0].target, "docs/a.svg");
    }

    #[test]
    fn anchors_are_unique_and_without_punctuation() {
        let found: Vec<_> = anchors(PAGE).into_iter().collect();
        assert_eq!(found, ["again", "again-1", "one-flag-two"]);
    }
}
