//! Licence expressions: `MIT OR Apache-2.0`, `(MIT OR Apache-2.0) AND Unicode-3.0`, `Apache-2.0 WITH LLVM-exception`.
//!
//! `AND` binds tighter than `OR`. Old packages write `MIT/Apache-2.0` for a choice.

/// Returns whether the allowed licences permit this expression; `None` if it cannot be parsed.
pub fn is_permitted(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, is_allowed };
    let permitted = reader.choice()?;
    reader.words.is_empty().then_some(permitted)
}

struct Reader<'a> {
    words: &'a [&'a str],
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn choice(&mut self) -> Option<bool> {
        let mut permitted = self.conjunction()?;
        while self.takes("OR") {
            permitted |= self.conjunction()?;
        }
        Some(permitted)
    }

    fn conjunction(&mut self) -> Option<bool> {
        let mut permitted = self.licence()?;
        while self.takes("AND") {
            permitted &= self.licence()?;
        }
        Some(permitted)
    }

    fn licence(&mut self) -> Option<bool> {
        if self.takes("(") {
            let permitted = self.choice()?;
            return self.takes(")").then_some(permitted);
        }
        let name = self.name()?;
        if self.takes("WITH") {
            let exception = self.name()?;
            return Some((self.is_allowed)(&format!("{name} WITH {exception}")));
        }
        Some((self.is_allowed)(name))
    }

    fn name(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        if ["OR", "AND", "WITH", "(", ")"].contains(first) {
            return None;
        }
        self.words = rest;
        Some(first)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::is_permitted;

    #[test]
    fn s11_licence_expressions_are_evaluated() {
        for (expression, permitted) in [
            ("MIT", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("GPL-3.0-only OR MIT", Some(true)),
            ("GPL-3.0-only/MIT", Some(true)),
            ("Apache-2.0 / MIT", Some(true)),
            ("MIT AND GPL-3.0-only", Some(false)),
            ("MIT AND ISC", Some(true)),
            ("(MIT OR GPL-3.0-only) AND ISC", Some(true)),
            ("(MIT OR ISC) AND GPL-3.0-only", Some(false)),
            ("MIT OR ISC AND GPL-3.0-only", Some(true)),
            ("GPL-3.0-only AND MIT OR ISC", Some(true)),
            ("MIT WITH LLVM-exception", Some(false)),
            ("MIT WITH LLVM-exception OR ISC", Some(true)),
            ("", None),
            ("MIT OR", None),
            ("MIT ISC", None),
            ("(MIT", None),
            ("MIT)", None),
            ("AND MIT", None),
            ("MIT WITH", None),
        ] {
            assert_eq!(is_permitted(expression, &|name| ["MIT", "ISC"].contains(&name)), permitted, "{expression}");
        }
    }
}
