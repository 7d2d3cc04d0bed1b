import { escapeHtml } from './html.ts'

/** A contact form for a page of the site, ready to be pasted: labelled, with a honeypot and the time at which it was shown. */
export function formHtml(endpoint: string, siteId: string): string {
  const trap = `_hp_${siteId.slice(-6)}`
  return `<form action="${escapeHtml(endpoint)}" method="post" accept-charset="utf-8">
  <p><label for="form-name">Name</label><br>
  <input id="form-name" name="name" autocomplete="name" maxlength="200" required></p>
  <p><label for="form-email">Email</label><br>
  <input id="form-email" name="email" type="email" autocomplete="email" maxlength="254" required></p>
  <p><label for="form-message">Message</label><br>
  <textarea id="form-message" name="message" rows="6" maxlength="5000" required></textarea></p>
  <p hidden><label>Leave this empty <input name="${trap}" tabindex="-1" autocomplete="off"></label></p>
  <input type="hidden" name="_submit_time">
  <p><button type="submit">Send</button></p>
  <script>document.currentScript.closest('form').elements._submit_time.value = Date.now()</script>
</form>
`
}
