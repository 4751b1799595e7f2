/** The page where a name and a password are asked for. */

import {get, post} from "./api.js";
import {byId} from "./elements.js";

/** Shows the page, until somebody is signed in. @param {string} reason @param {() => Promise<void>} signedIn */
export function signIn(reason, signedIn) {
  const form = byId("sign-in-form");
  const fault = byId("sign-in-fault");
  byId("sign-in").hidden = false;
  document.title = "Sign in – dpsql";
  fault.textContent = reason;
  byId("name").focus();
  get("/api/login").then(
    ({signs_on: elsewhere}) => (byId("elsewhere").hidden = !elsewhere),
    () => undefined,
  );
  form.onsubmit = async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    fault.textContent = "";
    try {
      await post("/api/login", {name: form.elements.name.value, password: form.elements.password.value});
      form.reset();
      await signedIn();
    } catch (refused) {
      fault.textContent = inWords(refused);
      byId("password").select();
    } finally {
      button.disabled = false;
    }
  };
}

const inWords = (refused) =>
  refused.code === "login"
    ? "The name or the password is wrong. The owner of the data has set both."
    : [refused.message, refused.remedy].filter(Boolean).join("; ");
