"use strict";
document.getElementById("scene").textContent = "The page is yet to come.";
