//! Why a file cannot be read as a model.

use std::fmt;

use tilewright_base::Diagnostic;

/// What was read, or why it could not be.
pub type ImportResult<T> = Result<T, Box<ImportError>>;

/// Why a file cannot be read as a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The file, as it was named.
    pub file: String,
    /// The tensor, node or key that it is about.
    pub item: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What is allowed.
    pub allowed: Option<String>,
    /// What to do instead.
    pub instead: Option<String>,
}

impl ImportError {
    /// Something about a file.
    pub fn new(file: &str, what: impl Into<String>) -> Box<ImportError> {
        Box::new(ImportError {
            file: file.into(),
            item: None,
            what: what.into(),
            allowed: None,
            instead: None,
        })
    }

    /// Something about a tensor, node or key of a file.
    pub fn about(file: &str, item: impl Into<String>, what: impl Into<String>) -> Box<ImportError> {
        let item = Some(item.into());
        Box::new(ImportError { file: file.into(), item, what: what.into(), allowed: None, instead: None })
    }

    /// Says what is allowed.
    #[must_use]
    pub fn allowed(mut self: Box<Self>, text: impl Into<String>) -> Box<ImportError> {
        self.allowed = Some(text.into());
        self
    }

    /// Says what to do instead.
    #[must_use]
    pub fn instead(mut self: Box<Self>, text: impl Into<String>) -> Box<ImportError> {
        self.instead = Some(text.into());
        self
    }

    /// A refusal of the graph level, with the node that asked for it.
    pub fn graph(file: &str, item: impl Into<String>, complaint: &Diagnostic) -> Box<ImportError> {
        let mut error = ImportError::about(file, item, format!("{} [{}]", complaint.message, complaint.code));
        error.allowed.clone_from(&complaint.allowed);
        error.instead.clone_from(&complaint.instead);
        error
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if let Some(item) = &self.item {
            write!(f, "{item}: ")?;
        }
        write!(f, "{}", self.what)?;
        if let Some(allowed) = &self.allowed {
            write!(f, "\n  = allowed: {allowed}")?;
        }
        if let Some(instead) = &self.instead {
            write!(f, "\n  = instead: {instead}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ImportError {}
