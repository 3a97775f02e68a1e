//! Variables that change what a precision means, in every worker.

/// Variables that make libraries round single precision regardless of libtorch's flags, or let another device compute;
/// and their harmless values.
pub const ROUNDING_VARIABLES: [(&str, &[&str]); 6] = [
    ("ONEDNN_DEFAULT_FPMATH_MODE", &["", "STRICT", "strict"]),
    ("DNNL_DEFAULT_FPMATH_MODE", &["", "STRICT", "strict"]),
    ("NVIDIA_TF32_OVERRIDE", &[""]),
    ("CUBLAS_EMULATE_SINGLE_PRECISION", &["", "0"]),
    ("PYTORCH_MPS_FAST_MATH", &["", "0"]),
    ("PYTORCH_ENABLE_MPS_FALLBACK", &["", "0"]),
];
