//! Text as it comes: for people at a terminal, piece by piece.

use tilewright_import::tokenizer::Tokenizer;

use crate::host::Host;

/// What was generated so far, and how much of it is shown.
pub(super) struct TextStream<'s> {
    tokenizer: &'s Tokenizer,
    tokens: Vec<u32>,
    shown: usize,
    listens: bool,
}

impl<'s> TextStream<'s> {
    /// Shows the prompt.
    pub(super) fn new(tokenizer: &'s Tokenizer, prompt: &[u32], listens: bool, host: &mut dyn Host) -> Self {
        let mut stream = TextStream { tokenizer, tokens: prompt.to_vec(), shown: 0, listens };
        stream.show(host);
        stream
    }

    /// Shows one token more.
    pub(super) fn say(&mut self, token: u32, host: &mut dyn Host) {
        self.tokens.push(token);
        self.show(host);
    }

    /// All of it; whether it was shown.
    pub(super) fn end(mut self, host: &mut dyn Host) -> (String, bool) {
        let text = self.tokenizer.decode(&self.tokens);
        if self.listens {
            let rest = text.get(self.shown..).unwrap_or_default().to_string() + "\n";
            self.listens = host.say(&rest);
        }
        (text, self.listens)
    }

    /// Shows what is new; a character of which bytes are missing waits for them.
    fn show(&mut self, host: &mut dyn Host) {
        if !self.listens {
            return;
        }
        let text = self.tokenizer.decode(&self.tokens);
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        if let Some(fresh) = whole.get(self.shown..) {
            self.listens = host.say(fresh);
            self.shown = whole.len();
        }
    }
}
