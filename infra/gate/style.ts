/** The rules of the login page, besides those of every page of the platform. */
export const gateStyle = `
:root{--bad:#b3261e;--focus:#0b57d0;--field:#fff}
@media (prefers-color-scheme:dark){:root{--bad:#f2b8b5;--focus:#8ab4f8;--field:#1c2024}}
body{grid-template-columns:minmax(0,24rem)}
main{max-width:none;overflow-wrap:anywhere}
.card{padding:2rem;border:1px solid var(--line);border-radius:1rem;background:var(--field)}
@media (max-width:30rem){body{padding:1rem}.card{padding:1.5rem 1.25rem}}
.logo{display:block;max-width:min(12rem,100%);max-height:6rem;margin:0 0 1.5rem}
.framed{padding:.5rem;border:1px solid var(--line);background:#fff}
.rounded{border-radius:1rem}
.text{white-space:pre-line}
h2{margin:1.5rem 0 0;font-size:1.1875rem;line-height:1.3}
h2+p{margin-top:.375rem}
bdi{display:inline-block;max-width:100%}
form{margin:1.5rem 0 0}
form+form{margin-top:.75rem}
form+form button{margin-top:0}
label{display:block;margin:0 0 .375rem;font-weight:600}
input,button,.button{width:100%;min-height:3rem;border-radius:.5rem;font:inherit}
input{padding:.5rem .75rem;border:1px solid var(--dim);background:var(--field);color:inherit}
input[aria-invalid]{border:2px solid var(--bad)}
.code{font-variant-numeric:tabular-nums;letter-spacing:.25em}
button,.button{margin:1rem 0 0;padding:.5rem 1rem;border:1px solid var(--ink);background:var(--ink);color:var(--paper);font-weight:600;cursor:pointer}
.button{display:flex;align-items:center;justify-content:center;text-align:center;text-decoration:none}
button:hover,.button:hover{opacity:.9}
.second{background:none;color:var(--ink)}
.plain{width:auto;min-height:2.75rem;margin:0;padding:0;border:0;background:none;color:var(--ink);font-weight:400;
text-decoration:underline;text-underline-offset:.2em}
.others{display:flex;flex-wrap:wrap;align-items:center;gap:0 1.5rem;margin-top:1rem}
.others form{margin:0}
.others a{display:inline-flex;align-items:center;min-height:2.75rem;text-underline-offset:.2em}
.error{margin:0 0 1rem;padding:.5rem 0 .5rem .75rem;border-left:4px solid var(--bad);color:var(--bad)}
.price{color:var(--ink)}
.price strong{white-space:nowrap}
.consent{font-size:.9375rem}
.box{display:flex;gap:.75rem;align-items:flex-start}
.box input{flex:none;width:1.5rem;height:1.5rem;min-height:0;margin:0;accent-color:var(--ink)}
.box input[aria-invalid]{outline:2px solid var(--bad);outline-offset:2px}
.box label{margin:0;font-weight:400}
ul{margin:.75rem 0 0;padding:0;list-style:none}
.channels li{padding:.5rem 0;border-bottom:1px solid var(--line)}
.channels span:last-child{color:var(--dim);font-size:.9375rem}
.documents{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin-top:1.5rem;padding-top:1rem;border-top:1px solid var(--line);font-size:.9375rem}
.documents a{display:inline-block;padding:.25rem 0;color:var(--dim)}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
`
