//! Tokens that are found in a text as they are written, before anything else is done with it.

/// Tokens with their texts, the longest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Specials(Vec<(String, u32)>);

impl Specials {
    /// Those of a vocabulary.
    pub(super) fn new(texts: &[String], ids: &[u32]) -> Specials {
        let mut special: Vec<(String, u32)> = ids
            .iter()
            .filter_map(|id| Some((texts.get(*id as usize)?.clone(), *id)))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        special.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then(a.1.cmp(&b.1)));
        Specials(special)
    }

    /// Whether a token is one of them.
    pub(super) fn has(&self, token: u32) -> bool {
        self.0.iter().any(|(_, id)| *id == token)
    }

    /// What stands between them, in order, each with the token behind it.
    pub(super) fn parts<'t>(&self, text: &'t str) -> Vec<(&'t str, Option<u32>)> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let found = self
                .0
                .iter()
                .filter_map(|(text, id)| rest.find(text.as_str()).map(|at| (at, text.len(), *id)))
                .min_by_key(|(at, length, _)| (*at, usize::MAX - length));
            let (plain, after) = match found {
                Some((at, length, _)) => (&rest[..at], &rest[at + length..]),
                None => (rest, ""),
            };
            parts.push((plain, found.map(|(_, _, id)| id)));
            rest = after;
        }
        parts
    }
}
