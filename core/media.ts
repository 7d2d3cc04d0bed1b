const textTypes =
  /^(text\/|application\/(javascript|json|xml|manifest\+json|ld\+json|xhtml\+xml|rss\+xml|atom\+xml|wasm)|image\/svg\+xml)/

/** Whether bytes of this media type shrink by compression; such blobs get an encoded twin. */
export const compressible = (mediaType: string) => textTypes.test(mediaType)
