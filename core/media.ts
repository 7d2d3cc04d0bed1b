const textTypes =
  /^(?:text\/|[^;]+\+(?:json|xml)\b|application\/(?:javascript|json|xml|wasm|toml|rtf|x-ndjson|vnd\.ms-fontobject)\b|font\/(?:ttf|otf)\b)/

/** Whether bytes of this media type shrink by compression; such blobs get a gzip variant. */
export const compressible = (mediaType: string) => textTypes.test(mediaType)
