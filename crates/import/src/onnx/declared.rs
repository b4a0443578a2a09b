//! What a file declares of the values that its nodes give, against what they give: types of elements, and
//! sizes. A size without a number, or with one below 1, declares nothing, and neither does a name.
//!
//! Files whose inputs have open axes often declare results for the size that they were exported at. Where a
//! request fixes an axis, or has elements that sizes may follow from, sizes are those of the request, and
//! only how many there are is compared.

use tilewright_graph::{Dim, ValueId};

use super::{OnnxReader, proto, tensor};
use crate::error::{ImportError, ImportResult};

impl OnnxReader<'_> {
    /// Refuses a value whose elements are of another type, or whose sizes are others, than the file says.
    pub(super) fn check_declared(
        &self,
        kind: &str,
        value: &proto::ValueInfoProto,
        id: ValueId,
    ) -> ImportResult<()> {
        let Some(declared) = value.ty.as_ref().and_then(|ty| ty.tensor.as_ref()) else { return Ok(()) };
        let item = format!("{kind} `{}`", value.name);
        self.check_type(&item, declared.element, id)?;
        declared.shape.as_ref().map_or(Ok(()), |shape| self.check_sizes(&item, &shape.dims, id))
    }

    fn check_type(&self, item: &str, element: i32, id: ValueId) -> ImportResult<()> {
        let computed = self.b.dtype(id);
        if element == 0 || tensor::dtype(element) == Some(computed) {
            return Ok(());
        }
        let declared = tensor::dtype(element);
        let declared =
            declared.map_or_else(|| format!("element type {element}"), |dtype| dtype.name().into());
        let what = format!("is declared as {declared}, and its node gives {}", computed.name());
        Err(ImportError::about(self.file, item, what)
            .allowed("the type that is computed")
            .instead(format!("`Cast` to {declared} in front of it, or {} declared", computed.name())))
    }

    fn check_sizes(&self, item: &str, declared: &[proto::DimensionProto], id: ValueId) -> ImportResult<()> {
        let computed = self.b.dims(id);
        let fits = |(declared, computed): (&proto::DimensionProto, &Dim)| {
            let (least, most) = computed.range(self.b.axes());
            let is_inside = |size: i64| (least..=most).contains(&size.into());
            self.has_chosen_sizes || declared_size(declared).is_none_or(is_inside)
        };
        if declared.len() == computed.len() && declared.iter().zip(computed).all(fits) {
            return Ok(());
        }
        let written =
            declared.iter().map(|dim| declared_size(dim).map_or("?".into(), |size| size.to_string()));
        let given = computed.iter().map(|dim| dim.text(self.b.axes())).collect::<Vec<_>>().join(", ");
        let written = written.collect::<Vec<_>>().join(", ");
        let what = format!("is declared with sizes [{written}], and its node gives [{given}]");
        Err(ImportError::about(self.file, item, what)
            .allowed("the sizes that are computed; a name, or no number, leaves a size open")
            .instead(format!("[{given}] declared, or no sizes at all")))
    }
}

/// The size that a file declares, if it says one.
fn declared_size(dim: &proto::DimensionProto) -> Option<i64> {
    dim.value.filter(|size| *size > 0 && dim.name.is_none())
}
